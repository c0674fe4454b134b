package keyspace

import (
	"context"
	"errors"
	"strings"

	"kvd/pkg/ops/kube/envelope"
)

// Filter chooses keys. What is empty chooses all; what is set must all hold.
type Filter struct {
	Selection
	Kind     string // as the value says it, in any case: "Pod"
	Lease    int64  // that the key is on
	MinBytes int64  // of the value
	MaxBytes int64  // of the value; 0 has no limit
}

// ofValue reports whether the value must be known.
func (f *Filter) ofValue() bool { return f.Kind != "" || f.MinBytes > 0 || f.MaxBytes > 0 }

// hasValue reports whether the value of an item fits. It is unsure of the kind of
// an encrypted value.
func (f *Filter) hasValue(it *Item) (fits, unsure bool) {
	size := int64(len(it.Value))
	if size < f.MinBytes || f.MaxBytes > 0 && size > f.MaxBytes {
		return false, false
	}
	if f.Kind == "" {
		return true, false
	}
	head, _ := envelope.Read(it.Value)
	return strings.EqualFold(head.Kind, f.Kind), head.Form == envelope.Encrypted
}

// ListOptions says what is listed, and how much of it.
type ListOptions struct {
	Filter
	Describer
	Rev    int64 // to list at; 0 is the latest
	Limit  int64 // of keys; 0 has none
	Values bool  // decode the values
}

// Listed is what a list had.
type Listed struct {
	Keys int64 `json:"keys"`
	More bool  `json:"more,omitempty"` // there are more than the limit
	// Unsure is how many encrypted values were left out, of which the kind cannot
	// be told.
	Unsure int64 `json:"encrypted_left_out,omitempty"`
}

// List calls fn for each key that fits, in order, in bounded memory. Values are
// read where the filter or the options ask for them, and where it can be helped
// only those of keys that fit. Errors are those of Source.Keys, and fn's.
func List(ctx context.Context, src Source, o ListOptions, fn func(*Entry) error) (Listed, error) {
	l := listing{src: src, o: o, fn: fn}
	l.sel = o.Selector(o.Layout)
	l.values = o.Values || o.ofValue() || o.Lease != 0 // a member does not tell leases without values
	// Where few of the keys in the ranges may fit, only their values are read.
	l.late = l.values && o.Lease == 0 && len(o.Namespaces) > 0 && len(o.Resources) == 0
	for _, q := range l.queries(ctx) {
		q.Rev, q.KeysOnly = o.Rev, !l.values || l.late
		err := src.Keys(ctx, q, func(it *Item) error { return l.item(ctx, it) })
		if err == errEnough { //nolint:errorlint // our own, and given back as it is
			l.sum.More = true
			break
		}
		if err != nil {
			return l.sum, err
		}
	}
	return l.sum, nil
}

// errEnough ends a walk that has what it wants.
var errEnough = errors.New("enough")

// listing is a list that is under way.
type listing struct {
	src          Source
	o            ListOptions
	fn           func(*Entry) error
	sel          Selector
	values, late bool
	sum          Listed
}

// queries returns one query for each of the selection's ranges, or, of a file, which
// is read as a whole for each query, one for all of them.
func (l *listing) queries(ctx context.Context) []Query {
	ranges := l.sel.Ranges()
	if len(ranges) > 1 {
		if cost, err := l.src.Cost(ctx, Query{}); err == nil && !cost.Live {
			return []Query{{From: ranges[0].From, End: ranges[len(ranges)-1].End, among: ranges}}
		}
	}
	out := make([]Query, len(ranges))
	for i, r := range ranges {
		out[i] = Query{From: r.From, End: r.End}
	}
	return out
}

func (l *listing) item(ctx context.Context, it *Item) error {
	if !l.sel.Has(string(it.Key)) || l.o.Lease != 0 && it.Lease != l.o.Lease {
		return nil
	}
	if l.late {
		if err := l.src.Load(ctx, it); err != nil {
			return err
		}
	}
	if l.o.ofValue() {
		fits, unsure := l.o.hasValue(it)
		if !fits {
			if unsure {
				l.sum.Unsure++
			}
			return nil
		}
	}
	if l.o.Limit > 0 && l.sum.Keys == l.o.Limit {
		return errEnough
	}
	l.sum.Keys++
	e := l.o.Entry(it)
	if l.o.Values {
		e = l.o.Decode(it)
	} else if l.values {
		e.ValueBytes = new(int64(len(it.Value)))
	}
	return l.fn(&e)
}
