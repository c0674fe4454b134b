package cli

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/wal"
)

// walText prints entries as a table that needs no end: a line for each segment,
// one for each entry, and one for each request of a transaction.
type walText struct {
	w    *bufio.Writer
	file string
}

const walLine = "%10s  %9s  %5s  %-11s  %9s  %s\n"

func (t *walText) line(l *wal.Line) error {
	if t.file != l.File {
		t.file = l.File
		fmt.Fprintf(t.w, "%s\n", render.Safe(l.File))
		fmt.Fprintf(t.w, walLine, "OFFSET", "INDEX", "TERM", "STATE", "SIZE", "REQUEST")
	}
	what := []string{walRequest(l)}
	switch {
	case l.User == "root" && l.Type == wal.LeaseRevokeType:
		what = append(what, "by user root, or because it ran out")
	case l.User != "":
		what = append(what, "by user "+l.User)
	}
	if l.Effect != nil {
		what = append(what, walEffect(l.Effect))
	}
	for _, u := range l.Unknown {
		what = append(what, fmt.Sprintf("unknown field %d of %s", u.Field, count(u.Bytes, "byte")))
	}
	if l.Replaces {
		what = append(what, fmt.Sprintf("a later leader's: it takes the place of what stood at %d and behind", l.Index))
	}
	_, err := fmt.Fprintf(t.w, walLine, strconv.FormatInt(l.Offset, 10), strconv.FormatUint(l.Index, 10), strconv.FormatUint(l.Term, 10),
		l.State, sizeText(l.Size), render.Safe(strings.Join(what, "; ")))
	if txn, ok := l.Body.(*wal.Txn); ok && err == nil {
		t.txn(txn, "    ")
	}
	return err
}

func walEffect(e *wal.Effect) string {
	if e.None {
		return "NO EFFECT, " + e.Why
	}
	return "perhaps without effect: " + e.Why
}

// walRequest says in words what an entry asks for.
func walRequest(l *wal.Line) string {
	kind := strings.ReplaceAll(string(l.Type), "_", " ")
	switch b := l.Body.(type) {
	case *wal.Op:
		return kind + " " + walOp(b)
	case *wal.Compaction:
		return fmt.Sprintf("%s up to revision %d", kind, b.Revision)
	case *wal.Lease:
		return kind + walLease(b)
	case *wal.Alarm:
		return fmt.Sprintf("%s: %s %s of member %s", kind, b.Action, b.Alarm, b.Member)
	case *wal.Version:
		return kind + " " + b.Version
	case *wal.Member:
		return kind + " " + walMember(b)
	case *wal.Auth:
		return kind + walAuth(b)
	case *wal.V2:
		return fmt.Sprintf("%s %s %s, %s%s", kind, b.Method, b.Path, count(len(b.Value), "byte"), shown(b.Preview))
	case wal.Checkpoints:
		parts := make([]string, 0, len(b.Leases))
		for _, c := range b.Leases {
			parts = append(parts, fmt.Sprintf("%s %d s", c.ID, c.Remaining))
		}
		return kind + " " + strings.Join(parts, ", ")
	}
	return kind
}

// txn prints conditions and branches, each on a line of its own.
func (t *walText) txn(txn *wal.Txn, indent string) {
	for _, c := range txn.Compare {
		with := strconv.FormatInt(c.Number, 10)
		switch c.Target {
		case "value":
			with = count(len(c.Value), "byte") + shown(c.Preview)
		case "lease":
			with = wal.LeaseID(c.Number).String()
		}
		fmt.Fprintf(t.w, "%sif    %s of %s %s %s\n", indent, c.Target, render.Safe(walKeys(c.Key, c.End)), c.Result, render.Safe(with))
	}
	for _, branch := range []struct {
		name string
		ops  []wal.Op
	}{{"then", txn.Success}, {"else", txn.Failure}} {
		for i := range branch.ops {
			o := &branch.ops[i]
			if o.Deeper {
				fmt.Fprintf(t.w, "%s%s  txn, nested too deep to be shown\n", indent, branch.name)
				continue
			}
			fmt.Fprintf(t.w, "%s%s  %s %s\n", indent, branch.name, strings.ReplaceAll(string(o.Op), "_", " "), render.Safe(walOp(o)))
			if o.Txn != nil {
				t.txn(o.Txn, indent+"      ")
			}
		}
	}
}

// walOp is the keys of a request and what else matters of it.
func walOp(o *wal.Op) string {
	if o.Txn != nil {
		return ""
	}
	parts := []string{walKeys(o.Key, o.End)}
	if o.IsPut() {
		parts = append(parts, count(len(o.Value), "byte")+shown(o.Preview))
	}
	if o.Lease != 0 {
		parts = append(parts, "lease "+o.Lease.String())
	}
	if k := o.Object; k != nil && k.Kind != "" {
		parts = append(parts, k.APIVersion+" "+k.Kind)
	}
	if k := o.Object; k != nil && k.Encrypted != "" {
		parts = append(parts, k.Encrypted)
	}
	return strings.Join(parts, ", ")
}

func walKeys(key, end []byte) string {
	switch {
	case len(end) == 0:
		return string(key)
	case string(end) == "\x00":
		return string(key) + " and all behind"
	case wal.IsPrefix(key, end):
		return string(key) + "*"
	}
	return fmt.Sprintf("%s up to %s", key, end)
}

// shown is a value's beginning, where values are shown.
func shown(preview []byte) string {
	if len(preview) == 0 {
		return ""
	}
	return " \"" + string(preview) + "\"" // made safe with the rest of the line
}

func walLease(l *wal.Lease) string {
	s := " " + l.ID.String()
	if l.TTL > 0 {
		s += fmt.Sprintf(", %d s", l.TTL)
	}
	for _, h := range l.Held {
		verb := "held"
		if !h.Sure {
			verb = "may have held"
		}
		s += fmt.Sprintf("; it %s %s since %d", verb, h.Key, h.Since)
	}
	return s
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

func walAuth(a *wal.Auth) string {
	s := ""
	if a.User != "" {
		s += " " + a.User
	}
	if a.Role != "" {
		s += " role " + a.Role
	}
	if a.Key != "" || a.End != "" {
		s += fmt.Sprintf(" %s %s", a.Permission, walKeys([]byte(a.Key), []byte(a.End)))
	}
	if a.HasSecret {
		s += ", password redacted"
	}
	return s
}
