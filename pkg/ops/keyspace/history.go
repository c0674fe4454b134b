package keyspace

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"

	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/envelope"
)

// What says what happened to a key.
type What string

// What can happen to a key.
const (
	Begins       What = "history_begins" // the first that can be told: everything before was compacted
	Kept         What = "kept"           // the state that the compaction left: of its life before, it has the last put
	Created      What = "created"
	Recreated    What = "recreated" // created again, having been deleted
	Updated      What = "updated"   // put with another value
	Touched      What = "touched"   // put again as it was
	LeaseChanged What = "lease_changed"
	Deleted      What = "deleted"
)

// Event is one change in the life of a key.
type Event struct {
	What     What  `json:"what"`
	Revision int64 `json:"revision"`      // Kubernetes' resourceVersion
	Sub      int64 `json:"sub,omitempty"` // its place among the changes of one transaction
	Version  int64 `json:"version,omitempty"`
	Created  int64 `json:"create_revision,omitempty"`

	Lease       string `json:"lease,omitempty"`
	LeaseBefore string `json:"lease_before,omitempty"` // where that was another one
	ValueBytes  *int64 `json:"value_bytes,omitempty"`  // of what is stored since

	// Kind is what the value is: "apps/v1 Deployment"; "encrypted at rest (aescbc, key1)".
	Kind string `json:"value_kind,omitempty"`
	// Changes is what is different in the value, of an Updated key. A path that is
	// empty stands for the whole value.
	Changes []codec.FieldChange `json:"changes,omitempty"`
	By      []Manager           `json:"by,omitempty"`
	Note    string              `json:"note,omitempty"`
	Value   *ValueShown         `json:"value,omitempty"` // if asked for
}

// HistoryOptions says how a history is told.
type HistoryOptions struct {
	Describer
	Ignore codec.Ignore // in what is different
	Values bool         // with each value in whole
}

// History calls fn for each change of a key that is kept, from the oldest to the
// newest, behind one that says where history begins. It keeps one value in memory.
// It returns the revisions that it could look at, and how many changes there were.
// Errors are those of Source.Changes, and fn's.
func History(ctx context.Context, src Source, key string, o HistoryOptions, fn func(*Event) error) (Bounds, int64, error) {
	b, err := src.Bounds(ctx)
	if err != nil {
		return b, 0, err
	}
	h := history{o: o, oldest: b.Oldest, fn: fn}
	if err := fn(h.begins()); err != nil {
		return b, 0, err
	}
	err = src.Changes(ctx, Query{From: key, End: key + "\x00"}, h.change)
	return b, h.count, err
}

// history is the life of a key up to the change in hand.
type history struct {
	o      HistoryOptions
	oldest int64
	fn     func(*Event) error
	count  int64

	had     bool   // there was a change before
	deleted bool   // and it was a deletion
	at      int64  // at this revision
	lease   int64  // what the key was on
	value   []byte // what it had, also before a deletion
	object  codec.Object
}

func (h *history) begins() *Event {
	e := &Event{What: Begins, Revision: h.oldest, Note: "nothing was compacted, it is whole"}
	if h.oldest > 1 {
		e.Note = "what was before is compacted, but for the last put of a key that was there"
	}
	return e
}

func (h *history) change(c *Change) error {
	h.count++
	e := &Event{Revision: c.ModRevision, Sub: c.Sub}
	if c.Tombstone {
		h.deletion(e)
	} else {
		h.put(e, c)
	}
	h.had, h.at = true, c.ModRevision
	return h.fn(e)
}

func (h *history) deletion(e *Event) {
	e.What, e.Note = Deleted, "by whom, etcd does not keep"
	if h.lease != 0 {
		e.LeaseBefore = hexID(h.lease)
		e.Note = "perhaps by the end of its lease; by whom, etcd does not keep"
	}
	h.deleted, h.lease = true, 0
}

func (h *history) put(e *Event, c *Change) {
	object := h.o.decode(&c.Item)
	e.Version, e.Created, e.Kind, e.ValueBytes = c.Version, c.CreateRevision, object.What(), new(int64(len(c.Value)))
	if c.Lease != 0 {
		e.Lease = hexID(c.Lease)
	}
	h.name(e, c)
	if e.What == Updated {
		h.compare(e, &object, c.Value)
	}
	if e.What != Touched && e.What != LeaseChanged {
		var before map[string]any
		if e.What == Updated {
			before = h.object.Tree
		}
		e.By = managers(before, object.Tree)
	}
	if h.o.Values {
		e.Value = h.o.shown(&object, &c.Item)
	}
	h.deleted, h.lease, h.object = false, c.Lease, object
	h.value = append(h.value[:0], c.Value...)
}

// name says what a put is, by what was before.
func (h *history) name(e *Event, c *Change) {
	born := c.Version == 1
	switch {
	case born && h.had:
		e.What = Recreated
		switch {
		case bytes.Equal(c.Value, h.value):
			e.Note = "with the value that it had"
		case h.deleted && h.at == c.ModRevision:
			e.Note = "in the transaction that deleted it"
		}
	case born:
		e.What = Created
		if h.oldest > 1 {
			e.Note = "whether it had been there before, is compacted"
		}
	case !h.had:
		e.What = Kept
		e.Note = fmt.Sprintf("created at revision %d; %s before this one compacted", c.CreateRevision, putsWere(c.Version-1))
	default:
		same := bytes.Equal(c.Value, h.value)
		if c.Lease != h.lease && h.lease != 0 {
			e.LeaseBefore = hexID(h.lease)
		}
		switch {
		case !same:
			e.What = Updated
		case c.Lease != h.lease:
			e.What = LeaseChanged
		default:
			e.What = Touched
		}
	}
}

func putsWere(n int64) string {
	if n == 1 {
		return "1 put was"
	}
	return fmt.Sprintf("%d puts were", n)
}

// compare says what is different in the value.
func (h *history) compare(e *Event, now *codec.Object, value []byte) {
	before := &h.object
	secret := (before.Secret || now.Secret) && !h.o.ShowValues
	switch {
	case before.Tree != nil && now.Tree != nil:
		e.Changes = codec.Diff(before, now, codec.DiffOptions{Ignore: h.o.Ignore, ShowValues: h.o.ShowValues})
		switch {
		case len(e.Changes) > 0:
		case before.Form != now.Form:
			e.Note = fmt.Sprintf("the same fields, written as %s before and as %s now", before.Form, now.Form)
		case len(codec.Diff(before, now, codec.DiffOptions{})) == 0:
			e.Note = "the same fields, in other bytes"
		default:
			e.Note = "nothing else than what is left out changed"
		}
		if before.Partial || now.Partial {
			e.Note = addNote(e.Note, now.Problem)
		}
	case before.What() != now.What():
		e.Note = "was " + before.What() + " before"
	case now.Form == envelope.Encrypted:
		e.Note = "what changed cannot be told"
	case !secret && utf8.Valid(h.value) && utf8.Valid(value):
		e.Changes = []codec.FieldChange{{Op: codec.Changed, Before: string(h.value), After: string(value)}}
	default:
		e.Note = fmt.Sprintf("%d bytes before", len(h.value))
	}
}

func hexID(lease int64) string { return strconv.FormatUint(uint64(lease), 16) } //nolint:gosec // the same bits
