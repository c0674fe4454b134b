package wal

import (
	"bytes"
	"cmp"
	"container/heap"
	"slices"
)

const (
	fewBiggest  = 100     // of the largest entries where no number is given
	maxBiggest  = 1000    // more are never kept
	maxFirstKey = 4 << 10 // bytes of a key that are kept of such an entry
)

// mostBiggest is how many of the largest entries are kept for so many rows.
func mostBiggest(top int) int { return min(cmp.Or(top, fewBiggest), maxBiggest) }

// biggest keeps the largest entries, of the same size those that came first. It is a heap
// with the smallest of them in front, which the next larger one takes the place of.
type biggest struct {
	most int
	all  []BigEntry
}

// see looks at an entry.
func (b *biggest) see(r *Record, q *Request, w writing) {
	if len(b.all) == b.most && b.all[0].Bytes >= r.Size {
		return
	}
	x := BigEntry{Position: r.Position, EntryID: EntryID{r.Entry.Index, r.Entry.Term}, Bytes: r.Size, Type: q.Type, Writes: w.n,
		Key: bytes.Clone(w.key[:min(len(w.key), maxFirstKey)])}
	if len(w.key) > maxFirstKey {
		x.KeyBytes = len(w.key)
	}
	b.add(x)
}

func (b *biggest) add(x BigEntry) {
	if len(b.all) == b.most {
		if b.before(x, b.all[0]) {
			b.all[0] = x
			heap.Fix(b, 0)
		}
		return
	}
	if b.all = append(b.all, x); len(b.all) == b.most {
		heap.Init(b)
	}
}

// join adds those of what came later.
func (b *biggest) join(next *biggest) {
	for _, x := range next.all {
		b.add(x)
	}
}

// list returns them, the largest first.
func (b *biggest) list() []BigEntry {
	out := append([]BigEntry{}, b.all...)
	slices.SortFunc(out, func(x, y BigEntry) int {
		switch {
		case b.before(x, y):
			return -1
		case b.before(y, x):
			return 1
		}
		return 0
	})
	return out
}

// before is the order in which they are told.
func (*biggest) before(x, y BigEntry) bool {
	if x.Bytes != y.Bytes {
		return x.Bytes > y.Bytes
	}
	return x.Position.before(y.Position)
}

// Len is for the heap, as are the others.
func (b *biggest) Len() int           { return len(b.all) }
func (b *biggest) Less(i, j int) bool { return b.before(b.all[j], b.all[i]) }
func (b *biggest) Swap(i, j int)      { b.all[i], b.all[j] = b.all[j], b.all[i] }

// Push and Pop are never called: it grows by itself, and only to most.
func (*biggest) Push(any) {}
func (*biggest) Pop() any { return nil }
