package cli

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/wal"
)

// walText prints entries as a table that needs no end: a line for each segment,
// one for each entry, and one for each request of a transaction. A log has millions of
// them, so that they are put together in one piece of memory.
type walText struct {
	w     *bufio.Writer
	file  string
	b     []byte
	sizes [256]sizeWords // the last that were put in words, by their last byte: logs are full of records of the same size
}

// longLine is from how many bytes on a line is passed on before it is whole.
const longLine = 16 << 10

type sizeWords struct {
	bytes int64
	words string
}

func (t *walText) line(l *wal.Line) error {
	t.b = t.b[:0]
	if t.file != l.File {
		t.file = l.File
		t.safe(l.File).text("\n")
		t.text(fmt.Sprintf("%10s  %9s  %5s  %-11s  %9s  %s\n", "OFFSET", "INDEX", "TERM", "STATE", "SIZE", "REQUEST"))
	}
	t.right(10, uint64(l.Offset)).text(" ").right(10, l.Index).text(" ").right(6, l.Term).text("  ").text(string(l.State)) //nolint:gosec // no offset is below 0
	t.pad(13-len(l.State), len(t.b))
	at := len(t.b)
	t.text(t.size(l.Size)).pad(9-(len(t.b)-at), at)
	t.text("  ").request(l)
	t.remarks(l)
	t.text("\n")
	if txn, ok := l.Body.(*wal.Txn); ok {
		t.txn(txn, "    ")
	}
	return t.flush()
}

// flush passes on what there is of a line, which may be long: a lease can have held any
// number of keys. The writer remembers an error until the last of them.
func (t *walText) flush() error {
	_, err := t.w.Write(t.b)
	t.b = t.b[:0]
	return err
}

// remarks says what else there is to say of an entry.
func (t *walText) remarks(l *wal.Line) {
	switch {
	case l.User == "root" && l.Type == wal.LeaseRevokeType:
		t.text("; by user root, or because it ran out")
	case l.User != "":
		t.text("; by user ").name(l.User)
	}
	if l.Effect != nil {
		t.text("; ").safe(walEffect(l.Effect))
	}
	for _, u := range l.Unknown {
		t.text(fmt.Sprintf("; unknown field %d of ", u.Field)).bytes(u.Bytes)
	}
	if l.Replaces {
		t.text(fmt.Sprintf("; a later leader's: it takes the place of what stood at %d and behind", l.Index))
	}
}

func (t *walText) text(s string) *walText {
	t.b = append(t.b, s...)
	return t
}

// name is a key, or what else clients chose. It is put in quotes where it could be taken
// for something else that stands in a line; a quote in it is then written as \x22, so that
// --key takes it as it is shown between them.
func (t *walText) name(s string) *walText {
	if s != "" && !strings.ContainsAny(s, " ,;*\"") {
		return t.safe(s)
	}
	t.text("\"")
	for i, part := range strings.Split(s, "\"") {
		if i > 0 {
			t.text(`\x22`)
		}
		t.safe(part)
	}
	return t.text("\"")
}

func (t *walText) safe(s string) *walText {
	t.b = render.AppendSafe(t.b, s)
	return t
}

// right appends a number at the right of so many columns.
func (t *walText) right(columns int, n uint64) *walText {
	at := len(t.b)
	t.b = strconv.AppendUint(t.b, n, 10)
	t.pad(columns-(len(t.b)-at), at)
	return t
}

// pad inserts blanks at a place.
func (t *walText) pad(n, at int) {
	const blanks = "                    "
	if n > 0 {
		t.b = slices.Insert(t.b, at, []byte(blanks[:n])...)
	}
}

func (t *walText) size(n int64) string {
	known := &t.sizes[uint8(n)] //nolint:gosec // the last byte
	if known.words == "" || known.bytes != n {
		*known = sizeWords{n, sizeText(n)}
	}
	return known.words
}

// request says in words what an entry asks for.
func (t *walText) request(l *wal.Line) {
	t.kind(l.Type)
	switch b := l.Body.(type) {
	case *wal.Op:
		t.text(" ").op(b)
	case *wal.Auth:
		t.auth(b)
	case *wal.Lease:
		t.lease(b)
	case *wal.Txn:
	default:
		t.safe(walRequest(l))
	}
}

func (t *walText) kind(k wal.RequestType) {
	at := len(t.b)
	t.text(string(k))
	for i := at; i < len(t.b); i++ {
		if t.b[i] == '_' {
			t.b[i] = ' '
		}
	}
}

func walEffect(e *wal.Effect) string {
	if e.None {
		return "NO EFFECT, " + e.Why
	}
	return "perhaps without effect: " + e.Why
}

// walRequest says in words what an entry of a rare kind asks for, behind the kind.
func walRequest(l *wal.Line) string {
	switch b := l.Body.(type) {
	case *wal.Compaction:
		return fmt.Sprintf(" up to revision %d", b.Revision)
	case *wal.Alarm:
		return fmt.Sprintf(": %s %s of member %s", b.Action, b.Alarm, b.Member)
	case *wal.Version:
		if b.Enabled != nil && !*b.Enabled {
			return " off"
		}
		return " " + b.Version
	case *wal.Member:
		return " " + walMember(b)
	case *wal.V2:
		return fmt.Sprintf(" %s %s, %s%s", b.Method, b.Path, count(len(b.Value), "byte"), shown(b.Preview))
	case wal.Checkpoints:
		parts := make([]string, 0, len(b.Leases))
		for _, c := range b.Leases {
			parts = append(parts, fmt.Sprintf("%s %d s", c.ID, c.Remaining))
		}
		return " " + strings.Join(parts, ", ")
	}
	return ""
}

// txn prints conditions and branches, each on a line of its own.
func (t *walText) txn(txn *wal.Txn, indent string) {
	for i := range txn.Compare {
		c := &txn.Compare[i]
		t.text(indent).text("if    ").text(c.Target).text(" of ").keys(c.Key, c.End).text(" ").text(c.Result).text(" ")
		switch c.Target {
		case "value":
			t.bytes(len(c.Value)).safe(shown(c.Preview))
		case "lease":
			t.text(wal.LeaseID(c.Number).String())
		default:
			t.b = strconv.AppendInt(t.b, c.Number, 10)
		}
		t.text("\n")
	}
	t.branch(indent, "then", txn.Success)
	t.branch(indent, "else", txn.Failure)
}

func (t *walText) branch(indent, name string, ops []wal.Op) {
	for i := range ops {
		o := &ops[i]
		t.text(indent).text(name).text("  ")
		if o.Deeper {
			t.text("txn, nested too deep to be shown\n")
			continue
		}
		t.kind(o.Op)
		t.text(" ").op(o)
		t.text("\n")
		if o.Txn != nil {
			t.txn(o.Txn, indent+"      ")
		}
	}
}

// op is the keys of a request and what else matters of it.
func (t *walText) op(o *wal.Op) {
	if o.Txn != nil {
		return
	}
	t.keys(o.Key, o.End)
	if o.IsPut() {
		t.text(", ").bytes(len(o.Value)).safe(shown(o.Preview))
	}
	if o.Lease != 0 {
		t.text(", lease ").text(o.Lease.String())
	}
	if k := o.Object; k != nil && k.Kind != "" {
		t.text(", ").safe(k.APIVersion).text(" ").safe(k.Kind)
	}
	if k := o.Object; k != nil && k.Encrypted != "" {
		t.text(", ").safe(k.Encrypted)
	}
}

func (t *walText) bytes(n int) *walText {
	t.b = strconv.AppendInt(t.b, int64(n), 10)
	if n == 1 {
		return t.text(" byte")
	}
	return t.text(" bytes")
}

// keys is a key, or a range in words.
func (t *walText) keys(key, end []byte) *walText {
	t.name(string(key))
	switch {
	case len(end) == 0:
	case string(end) == "\x00":
		t.text(" and all behind")
	case wal.IsPrefix(key, end):
		t.text("*")
	default:
		t.text(" up to ").name(string(end))
	}
	return t
}

// shown is a value's beginning, where values are shown.
func shown(preview []byte) string {
	if len(preview) == 0 {
		return ""
	}
	return " \"" + string(preview) + "\"" // made safe with the rest of the line
}

func (t *walText) lease(l *wal.Lease) {
	t.text(" ").text(l.ID.String())
	if l.TTL > 0 {
		t.text(fmt.Sprintf(", %d s", l.TTL))
	}
	for i := range l.Held {
		h := &l.Held[i]
		verb := "; it held "
		if !h.Sure {
			verb = "; it may have held "
		}
		t.text(verb).name(string(h.Key)).text(" since ")
		t.b = strconv.AppendUint(t.b, h.Since, 10)
		if len(t.b) > longLine {
			_ = t.flush() // which the writer remembers
		}
	}
}

func walMember(m *wal.Member) string {
	parts := []string{strings.TrimSpace(m.Change + " " + m.ID.String())}
	if m.Name != "" {
		parts = append(parts, "name "+m.Name)
	}
	if len(m.PeerURLs) > 0 {
		parts = append(parts, "peer URLs "+strings.Join(m.PeerURLs, " "))
	}
	if len(m.ClientURLs) > 0 {
		parts = append(parts, "client URLs "+strings.Join(m.ClientURLs, " "))
	}
	return strings.Join(parts, ", ")
}

func (t *walText) auth(a *wal.Auth) {
	if a.User != "" {
		t.text(" ").name(a.User)
	}
	if a.Role != "" {
		t.text(" role ").name(a.Role)
	}
	if a.Key != "" || a.End != "" {
		t.text(" ").safe(a.Permission).text(" ").keys([]byte(a.Key), []byte(a.End))
	}
	if a.HasSecret {
		t.text(", password redacted")
	}
}
