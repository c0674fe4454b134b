package wal

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"sort"
	"sync"
)

// halves counts a log in two parts at once. It returns nil where there is nothing to
// gain by that, and where anything is wrong with the log or with the whole that the
// parts make: reading it from its beginning tells what.
func (l *opened) halves(ctx context.Context, o StatsOptions) *counter {
	if runtime.GOMAXPROCS(0) < 2 {
		return nil
	}
	at, ok := l.middle(ctx)
	if !ok {
		return nil
	}
	first, second := newHalf(o), newHalf(o)
	second.begins = at.crc
	var wg sync.WaitGroup
	wg.Go(func() { second.count(ctx, l, at, place{segment: len(l.segments)}) })
	first.count(ctx, l, place{}, at)
	wg.Wait()
	fit := first.r.crc == second.begins && (at.offset == 0 || first.r.off == at.offset) &&
		(second.r.meta == nil || bytes.Equal(first.r.meta, second.r.meta))
	if !first.good || !second.good || first.r.meta == nil || !fit || !second.joinable() {
		return nil
	}
	first.join(second.counter)
	return first.counter
}

// emptyShare is how many bytes behind the last record, which have only to be zero, take
// as long as one of a record, by measure.
const emptyShare = 3

// middle is where the second half of the work begins, about, and whether there is such
// a place.
func (l *opened) middle(ctx context.Context) (place, bool) {
	sizes := make([]int64, len(l.files))
	var whole int64
	for i, f := range l.files {
		if info, err := f.Stat(); err == nil {
			sizes[i] = dataEnd(f, info.Size())
			whole += sizes[i] + (info.Size()-sizes[i])/emptyShare
		}
	}
	left := whole / 2 // the empty part is at the end of the last one
	for i, n := range sizes {
		if left >= n {
			left -= n
			continue
		}
		if p, ok := l.behind(ctx, i, left); ok {
			return p, true
		}
		if left > n/2 {
			i++
		}
		return place{segment: i}, 0 < i && i < len(sizes)
	}
	return place{}, false
}

// dataEnd is where a segment's data end, about: behind them there is nothing but zeros.
// A few blocks are looked at for that.
func dataEnd(f *os.File, size int64) int64 {
	const block = 4 << 10
	var b [block]byte
	return block * int64(sort.Search(int(size/block), func(i int) bool {
		n, err := f.ReadAt(b[:], block*int64(i))
		return err == nil && allZero(b[:n])
	}))
}

// behind finds a record behind an offset of a segment, by what it looks like: whoever
// reads up to there sees whether it is one.
func (l *opened) behind(ctx context.Context, i int, offset int64) (place, bool) {
	w := walker{f: l.files[i], trials: trialsBeside}
	info, err := w.f.Stat()
	if err != nil {
		return place{}, false
	}
	w.r.limit = info.Size()
	at := w.realign(ctx, offset)
	if at < 0 {
		return place{}, false
	}
	rec, _, ok := w.recordAt(at)
	return place{segment: i, offset: at + rec.Size, crc: rec.CRC}, ok
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

// count reads from one place to before another.
func (h *half) count(ctx context.Context, l *opened, from, to place) {
	defer h.r.close()
	var hides lost
	records := 0
	err := l.part(ctx, &h.r, from, to, func(r *Record) error {
		if records++; records == 1 && from.offset == 0 && r.Type == CRCType {
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
	out.Segments = joinSegments(out.Segments, with.Segments)
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
	c.keys.join(&next.keys)
	c.leases.join(&next.leases)
	c.biggest.join(&next.biggest)
}

// joinSegments adds the segments that follow, the first of which may be the rest of the
// last one.
func joinSegments(all, next []SegmentAmount) []SegmentAmount {
	if n := len(all); n > 0 && len(next) > 0 && all[n-1].Name == next[0].Name {
		all[n-1].Last = next[0].Last
		all[n-1].join(next[0].Amount)
		next = next[1:]
	}
	return append(all, next...)
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
