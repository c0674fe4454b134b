package wal

import (
	"context"
	"errors"
	"strings"
	"time"

	"kvd/pkg/ops/kube/keys"
)

const (
	previewBytes = 256 // of a value that is shown, where no number is given
	maxNested    = 64  // how deep transactions are shown
)

// DumpOptions are what Dump shows, and how.
type DumpOptions struct {
	Filter
	ShowValues bool          // the beginning of each value; never of a password or its hash
	ValueBytes int64         // then: so many bytes of it; 0: all
	Layout     keys.Layout   // where Kubernetes keeps its objects
	Follow     bool          // go on with what a running server appends, until the context ends
	Poll       time.Duration // how often to look for that
}

// DefaultDumpOptions are those of `kvd wal dump`.
func DefaultDumpOptions() DumpOptions {
	return DumpOptions{ValueBytes: previewBytes, Layout: keys.Default(), Poll: 200 * time.Millisecond}
}

// Line is an entry of the log, for people and programs. It is valid until the
// callback returns.
type Line struct {
	Position
	Size     int64          `json:"size_bytes"` // of the record
	Index    uint64         `json:"index"`
	Term     uint64         `json:"term"`
	State    State          `json:"state"`
	Replaces bool           `json:"replaces,omitempty"` // the first of a later leader's entries: those before it from this index on are overwritten
	Type     RequestType    `json:"type"`
	ID       ID             `json:"request_id,omitempty"`
	User     string         `json:"user,omitempty"`
	AuthRev  uint64         `json:"auth_revision,omitempty"`
	Body     any            `json:"request,omitempty"` // see Request.Body
	Unknown  []UnknownField `json:"unknown_fields,omitempty"`
	Effect   *Effect        `json:"effect,omitempty"`
}

// DumpSummary is what there is to say of a dump as a whole.
type DumpSummary struct {
	Entries int64
	Shown   int64
	First   uint64  // index of the first entry
	Commit  uint64  // as the log knows it
	Last    uint64  // index of the last entry
	Torn    *Damage // a last record that is cut short, or was just being written
	Live    string  // then: the process that writes to the log

	// Revocations of leases that the log doesn't know from their beginning, of
	// which therefore nobody knows whether they deleted a key that was asked for.
	UnknownLeases int64
	HeldFull      bool // there were more keys on leases than are remembered
}

// Dump calls fn with each entry of a log that passes the filter, in order. dir is
// as for Find. It reads the log twice, first for what became of the entries, and
// stops where the first reading ended. Damage is a *fault.Error as of Records,
// after everything that stands before it; a last record that is cut short is
// none, see DumpSummary. Nothing is locked, and nothing is written. Memory is
// bounded by the largest record, and by what is remembered of leases.
func Dump(ctx context.Context, dir string, o DumpOptions, fn func(*Line) error) (DumpSummary, error) {
	found, err := lookTwice(ctx, dir)
	if err != nil {
		return DumpSummary{}, err
	}
	d := newDumper(o, found, fn)
	_, err = read(ctx, dir, func(r *Record) error {
		if !r.before(found.end) {
			return errEnd
		}
		return d.record(r)
	}, nil)
	switch {
	case errors.Is(err, errEnd): // more has been written since, so nothing was lost there
		err, found.lost = nil, lost{}
	case found.damage != nil && errors.As(err, new(*Damage)):
		err = found.damage.fault()
	}
	if t := found.damage; t != nil && t.cutShort() {
		d.sum.Torn, err = t, nil
		d.sum.Live = liveWords(found.dir)
	}
	if d.sum.Torn == nil {
		err = found.lost.instead(err)
	}
	if err == nil && o.Follow {
		err = follow(ctx, dir, found.end, o.Poll, d.record)
	}
	d.sum.HeldFull = d.holds.full
	return d.sum, err
}

// errEnd ends a reading early.
var errEnd = errors.New("the end of the dump")

// dumper makes lines of records.
type dumper struct {
	o       DumpOptions
	found   horizon
	effects *effects
	holds   *holds
	granted map[LeaseID]struct{} // leases that the log knows from their beginning
	request Request
	line    Line
	last    uint64
	sum     DumpSummary
	fn      func(*Line) error
}

func newDumper(o DumpOptions, found horizon, fn func(*Line) error) *dumper {
	d := &dumper{o: o, found: found, effects: newEffects(), granted: map[LeaseID]struct{}{}, fn: fn}
	d.holds = newHolds(&d.o.Filter)
	d.sum.Commit, d.sum.Last = found.commit, found.last
	return d
}

// record makes a line of a record that is an entry.
func (d *dumper) record(r *Record) error {
	d.effects.begins(r, d.sum.Entries)
	switch r.Type {
	case StateType:
		d.sum.Commit = max(d.sum.Commit, r.State.Commit)
		d.found.commit = d.sum.Commit // more than was known, in a log that is followed
	case EntryType:
		return d.entry(r)
	case MetadataType, CRCType, SnapshotType:
	}
	return nil
}

func (d *dumper) entry(r *Record) error {
	if d.sum.Entries++; d.sum.Entries == 1 {
		d.sum.First = r.Entry.Index
	}
	replaces := d.last > 0 && r.Entry.Index <= d.last
	d.last = r.Entry.Index
	d.sum.Last = max(d.sum.Last, d.last)
	q := &d.request
	q.Decode(r.Entry)
	state := d.found.state(r)
	var effect *Effect
	var held []Held
	concerned := !d.o.byKey() || d.concerns(q)
	if state != Overwritten {
		effect = d.effects.judge(d.last, q)
		if effect == nil || !effect.None {
			d.effects.apply(d.last, q)
			held = d.follow(q)
		}
	}
	if !d.o.cheap(r) || !d.o.Filter.request(q) || !concerned && len(held) == 0 {
		return nil
	}
	d.sum.Shown++
	d.present(q)
	if q.Type == LeaseRevokeType {
		q.Lease.Held = held
	}
	d.line = Line{Position: r.Position, Size: r.Size, Index: r.Entry.Index, Term: r.Entry.Term, State: state, Replaces: replaces,
		Type: q.Type, ID: ID(q.ID), User: q.User, AuthRev: q.AuthRevision, Body: q.Body(), Unknown: q.Unknown, Effect: effect}
	return d.fn(&d.line)
}

// concerns reports whether a request concerns a key that is wanted by naming it,
// or a range with it.
func (d *dumper) concerns(q *Request) bool {
	switch q.Type {
	case PutType, RangeType, DeleteRangeType:
		return d.o.op(&q.KV)
	case TxnType:
		return d.o.txn(&q.Txn)
	}
	return false
}

// follow keeps up what is on which lease, where keys are wanted.
func (d *dumper) follow(q *Request) []Held {
	if !d.o.byKey() {
		return nil
	}
	switch q.Type {
	case LeaseGrantType:
		if len(d.granted) < remembered {
			d.granted[q.Lease.ID] = struct{}{}
		}
	case LeaseRevokeType:
		if _, known := d.granted[q.Lease.ID]; !known {
			d.sum.UnknownLeases++
		}
		if !q.unsure() {
			delete(d.granted, q.Lease.ID)
		}
	}
	return d.holds.apply(d.last, q)
}

// present adds to a request what is shown of its keys and values.
func (d *dumper) present(q *Request) {
	switch q.Type {
	case PutType, RangeType, DeleteRangeType:
		d.presentOp(&q.KV, 0)
	case TxnType:
		d.presentTxn(&q.Txn, 0)
	case V2Request:
		if d.o.ShowValues && !q.V2.secret() || q.V2.own() {
			q.V2.Preview = d.preview(q.V2.Value)
		}
	}
}

func (d *dumper) presentTxn(t *Txn, depth int) {
	for i := range t.Compare {
		c := &t.Compare[i]
		c.Object = objectOf(d.o.Layout, c.Key, len(c.End) > 0)
		if d.o.ShowValues {
			c.Preview = d.preview(c.Value)
		}
	}
	for i := range t.Success {
		d.presentOp(&t.Success[i], depth)
	}
	for i := range t.Failure {
		d.presentOp(&t.Failure[i], depth)
	}
}

func (d *dumper) presentOp(o *Op, depth int) {
	if o.Txn != nil {
		if depth == maxNested {
			o.Txn, o.Deeper = nil, true
			return
		}
		d.presentTxn(o.Txn, depth+1)
		return
	}
	o.Object = objectOf(d.o.Layout, o.Key, len(o.End) > 0)
	if o.Object != nil && o.put {
		o.Object.describe(o.Value)
	}
	if d.o.ShowValues {
		o.Preview = d.preview(o.Value)
	}
}

// preview is what is shown of a value.
func (d *dumper) preview(value []byte) []byte {
	if n := d.o.ValueBytes; n > 0 && int64(len(value)) > n {
		return value[:n]
	}
	return value
}

// MarshalJSON adds the key, as Op has it.
func (h Held) MarshalJSON() ([]byte, error) {
	type plain Held
	return marshal(struct {
		keyJSON
		plain
	}{keysJSON(h.Key, nil), plain(h)})
}

// secret is true for where etcd 3.4 and 3.5 keep the users of the v2 API, with the
// hashes of their passwords (api/v2auth/auth.go of these).
func (q *V2) secret() bool {
	return strings.HasPrefix(q.Path, "/2/users")
}

// own is true for what etcd 3.4 and 3.5 tell of their members and version, as opposed
// to what users of the v2 API stored (membership/store.go).
func (q *V2) own() bool {
	return strings.HasPrefix(q.Path, "/0/members/") || q.Path == "/0/version"
}
