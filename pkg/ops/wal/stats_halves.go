package wal

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync"
)

// halves counts a log in two parts at once. It returns nil where there is nothing to
// gain by that, and where anything is wrong with the log or with the whole that the
// parts make: reading it from its beginning tells what.
func (l *opened) halves(ctx context.Context, o StatsOptions) *counter {
	at := l.middle()
	if at == 0 || runtime.GOMAXPROCS(0) < 2 {
		return nil
	}
	first, second := newHalf(o), newHalf(o)
	var wg sync.WaitGroup
	wg.Go(func() { second.count(ctx, l, at, len(l.segments)) })
	first.count(ctx, l, 0, at)
	wg.Wait()
	if !first.good || !second.good || first.r.crc != second.begins || !bytes.Equal(first.r.meta, second.r.meta) || !second.joinable() {
		return nil
	}
	first.join(second.counter)
	return first.counter
}

// middle is the segment with which the second half of the bytes begins, about; 0: there
// are too few.
func (l *opened) middle() int {
	sizes := make([]int64, len(l.files))
	var whole int64
	for i, f := range l.files {
		if info, err := f.Stat(); err == nil {
			sizes[i] = info.Size()
			whole += sizes[i]
		}
	}
	best, at, before := whole, 0, int64(0)
	for i, n := range sizes {
		if larger := max(before, whole-before); larger < best {
			best, at = larger, i
		}
		before += n
	}
	return at
}

// half is one of the two parts.
type half struct {
	*counter

	r      reader
	begins CRC // which the part before it must have at its end
	good   bool
}

func newHalf(o StatsOptions) *half {
	return &half{counter: newCounter(o), r: reader{in: ahead{alone: true}}}
}

// count reads the segments from one to before another.
func (h *half) count(ctx context.Context, l *opened, from, to int) {
	defer h.r.close()
	var hides lost
	records := 0
	err := l.part(ctx, &h.r, from, to, func(r *Record) error {
		if records++; records == 1 && r.Type == CRCType {
			h.begins = r.CRC
		}
		h.record(r)
		return nil
	}, hides.look)
	h.good = err == nil && hides.at == nil
}

// joinable reports that c has counted nothing under others that one before it may
// count by name.
func (c *counter) joinable() bool {
	return !c.prefixes.full() && !c.namespaces.full() && !c.users.full()
}

// join adds what was counted of the segments that follow.
func (c *counter) join(next *counter) {
	out, with := &c.out, &next.out
	switch {
	case with.Entries == 0:
	case out.Entries == 0:
		out.First, out.Last = with.First, with.Last
	default:
		if with.First.Index <= out.Last.Index {
			out.Overwritten += int64(out.Last.Index - with.First.Index + 1) //nolint:gosec // of entries that were read
		}
		out.Last = with.Last
	}
	if next.stated {
		out.Commit = with.Commit
	}
	out.Entries, out.Bytes, out.Overwritten = out.Entries+with.Entries, out.Bytes+with.Bytes, out.Overwritten+with.Overwritten
	out.Segments = append(out.Segments, with.Segments...)
	for t, a := range next.types {
		c.typed(t).join(*a)
	}
	next.prefixes.each(func(name string, p *prefixCount) {
		mine := c.prefixes.get(name)
		mine.join(p.Amount)
		if mine.resource == "" {
			mine.resource = p.resource
		}
	})
	next.namespaces.each(func(name string, a *Amount) { c.namespaces.get(name).join(*a) })
	next.users.each(func(name string, a *Amount) { c.users.get(name).join(*a) })
	c.keys.join(&next.keys, func(k string) int { return len(k) })
	c.leases.join(&next.leases, func(LeaseID) int { return 0 })
	biggest := slices.Concat(out.Biggest, with.Biggest)
	slices.SortStableFunc(biggest, func(a, b BigEntry) int { return int(b.Bytes - a.Bytes) })
	out.Biggest = biggest[:min(len(biggest), c.biggest())]
}

func (a *Amount) join(b Amount) { a.Count, a.Bytes = a.Count+b.Count, a.Bytes+b.Bytes }

// full reports that something was counted together, for want of room.
func (g *groups[V]) full() bool { return g.of[others] != nil }

// each calls fn with what there is, as it came.
func (g *groups[V]) each(fn func(string, *V)) {
	for _, name := range g.names {
		fn(name, g.of[name])
	}
}

// join adds what another has counted of what came later. What either has dropped of
// something, it may have had in both.
func (h *heavy[K, V]) join(next *heavy[K, V], text func(K) int) {
	h.missed.join(next.missed)
	for _, x := range next.all {
		mine := h.get(x.k)
		if mine == nil {
			mine = h.put(x.k, x.of, text(x.k))
		}
		mine.join(x.Amount)
	}
}
