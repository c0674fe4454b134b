// Package diff compares two key spaces, or one at two revisions: what was added,
// removed, changed, made anew, or only written again. It reads both in the order of
// their keys at the same time, in bounded memory.
package diff

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/keys"
)

// Kind says what became of a key.
type Kind string

// The kinds. A key is of the first that fits, in this order; Entry tells the rest.
const (
	Added     Kind = "added"     // B has it, A has not
	Removed   Kind = "removed"   // A has it, B has not
	Recreated Kind = "recreated" // deleted and made anew: the same key with another life
	Changed   Kind = "changed"   // its value is another
	Leased    Kind = "lease"     // the same value on another lease
	Touched   Kind = "touched"   // written again with the same value and lease
	Transient Kind = "transient" // neither has it: made and deleted in between
)

// Kinds returns all kinds in the order in which they are shown.
func Kinds() []Kind { return []Kind{Added, Removed, Changed, Recreated, Leased, Touched, Transient} }

// Side is one key space at one revision.
type Side struct {
	keyspace.Source
	Rev int64 // one that exists: Bounds tells which do
}

// Options says what is compared, and how.
type Options struct {
	Select keyspace.Selection
	Layout keys.Layout // where Kubernetes' objects are
	By     By          // what the summary's groups are

	// ByRevision takes a key that has the same revisions on both sides for
	// unchanged, and reads values only of the others. That is so within one
	// member or file; between two it is where one was made from the other.
	ByRevision bool
	// History adds keys that were made and deleted in between. They are read
	// from the side with the later revision.
	History bool

	Fields bool // compare Kubernetes' objects field by field
	codec.DiffOptions
}

// State is what a side says of a key.
type State struct {
	CreateRevision int64 `json:"create_revision"`
	ModRevision    int64 `json:"mod_revision"`
	Version        int64 `json:"version"`
	Lease          int64 `json:"-"`
	ValueBytes     int64 `json:"value_bytes"`

	Value []byte `json:"-"` // valid until the function that got the Entry returns
}

// Entry is one key that differs.
type Entry struct {
	Key  []byte
	Kind Kind
	A, B *State // nil where the side has no such key

	// ValueChanged is set for Recreated and Changed. Of an object of which only
	// fields differ that are ignored it is not, see IgnoredOnly.
	ValueChanged bool
	LeaseChanged bool
	IgnoredOnly  bool
	// Writes is how many times a key was written in between as far as that is
	// known: from its versions, or, of a Transient one, from history.
	Writes int64
	// Lives is how many times a Transient key was made; First and Last are the
	// revisions of its first and last change.
	Lives       int64
	First, Last int64

	Object *keys.Key           // what the key says, of a Kubernetes object
	Fields []codec.FieldChange // of an object that changed
	Opaque string              // why the fields of an object that changed can't be told
	// Rewritten says how the bytes of an object differ of which no field does: a change
	// of how the API server writes it ("as json before and as protobuf now").
	Rewritten string

	// Majority says with which side most members hold, "a" or "b", "neither" where
	// most agree on something else, or "none" where most do not agree; empty where
	// nobody was asked.
	Majority string
	// ShowValues writes the values into JSON.
	ShowValues bool
}

// merge is one comparison under way.
type merge struct {
	a, b Side
	o    Options
	sel  keyspace.Selector
	c    *codec.Codec
	emit func(*Entry) error
	e    Entry // the one in hand
	sum  *Summary
}

// Run compares two sides and calls fn for each key that differs, in the order of
// the keys. The entry is valid until fn returns. The summary is of all entries, also
// beside an error.
//
// Errors are those of the sources and of fn.
func Run(ctx context.Context, a, b Side, o Options, fn func(*Entry) error) (*Summary, error) {
	m := &merge{a: a, b: b, o: o, sel: o.Select.Selector(o.Layout), c: codec.New(), emit: fn, sum: newSummary()}
	for _, r := range m.ranges(ctx) {
		if err := m.run(ctx, r); err != nil {
			return m.sum, err
		}
	}
	return m.sum, nil
}

// ranges returns what to read: one range after the other, or, where a side is a
// file, which is read as a whole for each, one around all.
func (m *merge) ranges(ctx context.Context) []keyspace.Range {
	ranges := m.sel.Ranges()
	if len(ranges) < 2 {
		return ranges
	}
	for _, s := range []Side{m.a, m.b} {
		if cost, err := s.Cost(ctx, keyspace.Query{}); err != nil || !cost.Live {
			return []keyspace.Range{{From: ranges[0].From, End: ranges[len(ranges)-1].End}}
		}
	}
	return ranges
}

func (m *merge) run(ctx context.Context, r keyspace.Range) error {
	q := keyspace.Query{From: r.From, End: r.End, KeysOnly: m.o.ByRevision}
	w, err := m.walks(ctx, q)
	if err != nil {
		return err
	}
	defer w.close()
	a := newCursor(ctx, w.a)
	defer a.stop()
	b := newCursor(ctx, w.b)
	defer b.stop()
	begin(a, b)
	h := m.history(ctx, q)
	defer h.stop()
	var key []byte
	for {
		if err := cmp.Or(a.failed, b.failed, h.failed); err != nil {
			return err
		}
		next, more := least(a, b, h)
		if !more {
			return nil
		}
		key = append(key[:0], next...) // whose own is gone once its walk goes on
		life, atA, atB := h.life(key), a.at(key), b.at(key)
		if m.sel.Has(string(key)) {
			if err := m.compare(ctx, key, atA, atB, life); err != nil {
				return err
			}
		}
		if atA != nil {
			a.advance()
		}
		if atB != nil {
			b.advance()
		}
	}
}

// compare tells what became of a key.
func (m *merge) compare(ctx context.Context, key []byte, a, b *keyspace.Item, l life) error {
	if a != nil && b != nil && m.same(a, b) || a == nil && b == nil && l.writes == 0 {
		return nil
	}
	if err := m.load(ctx, a, b); err != nil {
		return err
	}
	e := &m.e
	*e = Entry{Key: key, A: state(a), B: state(b), ShowValues: m.o.ShowValues}
	if k, ok := m.o.Layout.Parse(string(key)); ok {
		e.Object = &k
	}
	switch {
	case a == nil && b == nil:
		e.Kind, e.Writes, e.Lives, e.First, e.Last = Transient, l.writes, l.lives, l.first, l.last
	case a == nil:
		e.Kind = Added
	case b == nil:
		e.Kind = Removed
	default:
		m.both(e)
	}
	m.sum.add(e, m.o)
	return m.emit(e)
}

// same reports that two states of a key are one.
func (m *merge) same(a, b *keyspace.Item) bool {
	return a.CreateRevision == b.CreateRevision && a.ModRevision == b.ModRevision && a.Version == b.Version &&
		(m.o.ByRevision || a.Lease == b.Lease && bytes.Equal(a.Value, b.Value))
}

// load reads the values that were left out.
func (m *merge) load(ctx context.Context, a, b *keyspace.Item) error {
	if m.o.ByRevision && a != nil {
		if err := m.a.Load(ctx, a); err != nil {
			return err
		}
	}
	if m.o.ByRevision && b != nil {
		return m.b.Load(ctx, b)
	}
	return nil
}

// both tells what became of a key that both sides have.
func (m *merge) both(e *Entry) {
	e.ValueChanged, e.LeaseChanged = !bytes.Equal(e.A.Value, e.B.Value), e.A.Lease != e.B.Lease
	recreated := e.A.CreateRevision != e.B.CreateRevision
	if !recreated {
		e.Writes = max(e.B.Version-e.A.Version, e.A.Version-e.B.Version)
	}
	if m.o.Fields && e.ValueChanged && e.Object != nil {
		m.fields(e)
	}
	switch {
	case recreated:
		e.Kind = Recreated
	case e.ValueChanged:
		e.Kind = Changed
	case e.LeaseChanged:
		e.Kind = Leased
	default:
		e.Kind = Touched
	}
}

// fields compares two objects. Where all that differs is to be ignored, the key
// counts as written with the same value.
func (m *merge) fields(e *Entry) {
	resource := e.Object.GroupResource()
	before, after := m.c.Decode(resource, e.A.Value), m.c.Decode(resource, e.B.Value)
	if before.Tree == nil || after.Tree == nil {
		e.Opaque = opaque(&before, &after)
		return
	}
	e.Fields = codec.Diff(&before, &after, m.o.DiffOptions)
	switch {
	case before.Partial || after.Partial:
		e.Opaque = cmp.Or(before.Problem, after.Problem)
	case len(e.Fields) > 0:
	case len(m.o.Ignore) > 0 && len(codec.Diff(&before, &after, codec.DiffOptions{})) > 0:
		e.ValueChanged, e.IgnoredOnly = false, true
	default:
		e.Rewritten = "in other bytes"
		if before.Form != after.Form {
			e.Rewritten = fmt.Sprintf("as %s before and as %s now", before.Form, after.Form)
		}
	}
}

// opaque says why the fields of two values can't be compared, and of which of them
// that is so: one may have been encrypted, or damaged, since.
func opaque(before, after *codec.Object) string {
	why := func(o *codec.Object) string {
		if o.Tree == nil && o.Problem == "" {
			return "the value is no object"
		}
		return o.What()
	}
	a, b := why(before), why(after)
	if a == b {
		return a
	}
	return "A: " + a + "; B: " + b
}

func state(i *keyspace.Item) *State {
	if i == nil {
		return nil
	}
	return &State{CreateRevision: i.CreateRevision, ModRevision: i.ModRevision, Version: i.Version, Lease: i.Lease,
		ValueBytes: int64(len(i.Value)), Value: i.Value}
}

// errStopped ends a walk whose reader has had enough.
var errStopped = errors.New("stopped")
