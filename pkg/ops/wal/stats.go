package wal

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"kvd/pkg/ops/kube/keys"
)

// StatsOptions are what GatherStats tells.
type StatsOptions struct {
	Top    int         // how many of each list, the largest first; 0: all that are kept; of the largest entries 1000 at most, and 100 where it is 0
	Layout keys.Layout // where Kubernetes keeps its objects
}

// DefaultStatsOptions are those of `kvd wal stats`.
func DefaultStatsOptions() StatsOptions { return StatsOptions{Top: 10, Layout: keys.Default()} }

// Amount is how much something has of the log.
type Amount struct {
	Count int64   `json:"count"`
	Bytes int64   `json:"bytes"`
	Share float64 `json:"share_ratio"` // of the bytes of all entries
}

// Stats says who writes. Entries that were overwritten, were not committed or were
// refused count as well: they were written. A write is a put or a delete, also in
// either branch of a transaction; its bytes are those of its key, its value and
// what is around them. What the entries have beside their writes is in Types only.
type Stats struct {
	Dir         string  `json:"dir"`
	Live        string  `json:"live,omitempty"` // the process that writes to it
	Entries     int64   `json:"entries"`
	Bytes       int64   `json:"bytes"` // of their records
	First       EntryID `json:"first_entry"`
	Last        EntryID `json:"last_entry"`
	Commit      uint64  `json:"commit"`
	Overwritten int64   `json:"overwritten"` // entries that a later leader replaced
	Torn        *Damage `json:"torn,omitempty"`

	Types      []TypeAmount    `json:"types"`      // entries by type
	Prefixes   []PrefixAmount  `json:"prefixes"`   // writes by the resource's prefix, or the first part of the key
	Namespaces []NameAmount    `json:"namespaces"` // writes of Kubernetes objects by namespace
	Keys       []KeyAmount     `json:"keys"`       // writes by key
	Leases     []LeaseAmount   `json:"leases"`     // puts by the lease that they are on
	Users      []NameAmount    `json:"users"`      // entries by who was authenticated
	Biggest    []BigEntry      `json:"biggest"`
	Segments   []SegmentAmount `json:"segments"`

	// Of keys and leases only so many are kept. Where these are not 0, one of
	// them may have been written so much more than is told, or be missing.
	KeysUncounted   Amount `json:"keys_uncounted_at_most"`
	LeasesUncounted Amount `json:"leases_uncounted_at_most"`
}

// TypeAmount is what entries of a type have.
type TypeAmount struct {
	Type RequestType `json:"type"`
	Amount
}

// NameAmount is what something with a name has.
type NameAmount struct {
	Name string `json:"name"`
	Amount
}

// PrefixAmount is what keys with a prefix have.
type PrefixAmount struct {
	Prefix   []byte `json:"-"`                  // see MarshalJSON
	Resource string `json:"resource,omitempty"` // of Kubernetes
	Amount
}

// KeyAmount is what a key has.
type KeyAmount struct {
	Key []byte `json:"-"` // see MarshalJSON
	Amount
}

// LeaseAmount is what puts on a lease have.
type LeaseAmount struct {
	Lease LeaseID `json:"lease"`
	Amount
}

// BigEntry is one of the largest entries.
type BigEntry struct {
	Position
	EntryID
	Bytes  int64       `json:"size_bytes"` // of the record
	Type   RequestType `json:"type"`
	Writes int         `json:"writes"` // keys and ranges that it may write
	Key    []byte      `json:"-"`      // the first of them, see MarshalJSON; at most 4 KiB of it,

	KeyBytes int `json:"key_bytes,omitempty"` // and where that is not all, how long it is
}

// SegmentAmount is what is in a segment.
type SegmentAmount struct {
	Name  string  `json:"name"`
	First EntryID `json:"first_entry"`
	Last  EntryID `json:"last_entry"`
	Amount
}

// GatherStats reads a log and counts. dir is as for Find. A last record that is cut
// short is no error, see Stats.Torn; other damage is one as of Records, and then the
// Stats are of what stands before it. Where a running server writes the log, the last
// record may be half written: it is read again then, some times. Nothing is locked, and
// nothing is written. Two processors read a half of the log each. Memory is bounded, by
// some 40 MiB and the two largest records.
func GatherStats(ctx context.Context, dir string, o StatsOptions) (*Stats, error) {
	for again := 1; ; again++ {
		s, err := gather(ctx, dir, o)
		var d *Damage
		if again < patience && errors.As(err, &d) && d.Last {
			if _, live := writer(s.Dir); live {
				continue
			}
		}
		return s, err
	}
}

// gather is one reading. It returns no Stats where nothing could be read.
func gather(ctx context.Context, dir string, o StatsOptions) (*Stats, error) {
	l, err := openLog(dir)
	defer l.close()
	if err != nil {
		return nil, err
	}
	live := liveWords(l.dir)
	if c := l.halves(ctx, o); c != nil {
		c.out.Dir, c.out.Live = l.dir, live
		return c.finish(), nil
	}
	c := newCounter(o)
	var hides lost
	err = l.read(ctx, func(r *Record) error {
		c.record(r)
		return nil
	}, hides.look)
	var d *Damage
	switch err = settleCut(ctx, l.dir, hides.instead(err)); {
	case err == nil:
	case !errors.As(err, &d):
		return nil, err
	case d.cutShort():
		c.out.Torn, err = d, nil
	}
	c.out.Dir, c.out.Live = l.dir, live
	return c.finish(), err
}

// finish makes lists of what was counted.
func (c *counter) finish() *Stats {
	s := &c.out
	// Empty lists, and none that is null: a script goes through them all the same.
	s.Types, s.Prefixes, s.Keys, s.Leases = []TypeAmount{}, []PrefixAmount{}, []KeyAmount{}, []LeaseAmount{}
	s.Biggest, s.Segments = c.biggest.list(), append([]SegmentAmount{}, s.Segments...)
	for t, a := range c.types {
		s.Types = append(s.Types, TypeAmount{t, c.share(*a)})
	}
	for p, a := range c.prefixes.of {
		s.Prefixes = append(s.Prefixes, PrefixAmount{[]byte(p), a.resource, c.share(a.Amount)})
	}
	for _, k := range largest(c.keys.each(), c.o.Top, func(x *counted[*folder]) (Amount, string) { return x.Amount, x.k }) {
		s.Keys = append(s.Keys, KeyAmount{[]byte(k.k), c.share(k.Amount)})
	}
	for _, l := range largest(c.leases.each(), c.o.Top, func(x *counted[struct{}]) (Amount, string) { return x.Amount, leaseOf(x.k).String() }) {
		s.Leases = append(s.Leases, LeaseAmount{leaseOf(l.k), c.share(l.Amount)})
	}
	s.Namespaces, s.Users = c.names(c.namespaces), c.names(c.users)
	s.KeysUncounted, s.LeasesUncounted = c.share(c.keys.missed), c.share(c.leases.missed)
	for i := range s.Segments {
		s.Segments[i].Amount = c.share(s.Segments[i].Amount)
	}
	s.Types = largest(slices.Values(s.Types), 0, func(x TypeAmount) (Amount, string) { return x.Amount, string(x.Type) })
	s.Prefixes = largest(slices.Values(s.Prefixes), c.o.Top, func(x PrefixAmount) (Amount, string) { return x.Amount, string(x.Prefix) })
	return s
}

func (c *counter) names(from groups[Amount]) []NameAmount {
	out := make([]NameAmount, 0, len(from.of))
	for name, a := range from.of {
		out = append(out, NameAmount{name, c.share(*a)})
	}
	return largest(slices.Values(out), c.o.Top, func(x NameAmount) (Amount, string) { return x.Amount, x.Name })
}

func (c *counter) share(a Amount) Amount {
	a.Share = float64(a.Bytes) / float64(max(c.out.Bytes, 1))
	return a
}

// largest sorts by bytes, then by number and name, and keeps the first n; 0: all.
func largest[T any](all iter.Seq[T], n int, of func(T) (Amount, string)) []T {
	order := func(x, y T) int {
		a, s := of(x)
		b, t := of(y)
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Count, a.Count), cmp.Compare(s, t))
	}
	top := []T{}
	if n == 0 || n > fewBiggest {
		top = slices.AppendSeq(top, all)
		slices.SortFunc(top, order)
		return top[:min(len(top), cmp.Or(n, len(top)))]
	}
	for x := range all { // few of many: most are compared with the last of them alone
		if len(top) == n && order(x, top[n-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, x, order)
		top = slices.Insert(top, at, x)
		top = top[:min(len(top), n)]
	}
	return top
}

// MarshalJSON adds the prefix: "prefix", or "prefix_base64" if it is not UTF-8.
func (p PrefixAmount) MarshalJSON() ([]byte, error) {
	type plain PrefixAmount
	text := asJSON(p.Prefix)
	return marshal(struct {
		Prefix *string `json:"prefix,omitempty"`
		Raw    []byte  `json:"prefix_base64,omitempty"`
		plain
	}{text.text, text.raw, plain(p)})
}

// MarshalJSON adds the key: "key", or "key_base64" if it is not UTF-8.
func (k KeyAmount) MarshalJSON() ([]byte, error) {
	type plain KeyAmount
	return marshal(struct {
		keyJSON
		plain
	}{keysJSON(k.Key, nil), plain(k)})
}

// MarshalJSON adds the key as KeyAmount has it, if there is one.
func (b BigEntry) MarshalJSON() ([]byte, error) {
	type plain BigEntry
	var key keyJSON
	if b.Writes > 0 {
		key = keysJSON(b.Key, nil)
	}
	return marshal(struct {
		plain
		keyJSON
	}{plain(b), key})
}
