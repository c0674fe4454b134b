package diagnose

import (
	"bytes"
	"cmp"
	"slices"
)

// topKept is how many keys are counted at once, and topShown how many are told.
const (
	topKept  = 50000
	topShown = 5
)

// top counts writes by key in bounded memory. Beyond topKept keys it is the counter
// of Misra and Gries: what is told of a key is then at most total/topKept too little,
// and no key with more than that is missed.
type top struct {
	of       map[string]*KeyWrites
	distinct int64
}

func newTop() *top { return &top{of: map[string]*KeyWrites{}} }

func (t *top) add(key []byte, size int64) {
	if k := t.of[string(key)]; k != nil {
		k.Writes, k.Bytes = k.Writes+1, k.Bytes+size
		return
	}
	t.distinct++
	if len(t.of) < topKept {
		t.of[string(key)] = &KeyWrites{Key: bytes.Clone(key), Writes: 1, Bytes: size}
		return
	}
	for name, k := range t.of {
		if k.Writes--; k.Writes == 0 {
			delete(t.of, name)
		}
	}
}

// fill puts the most written into w.
func (t *top) fill(w *Writes) {
	all := make([]KeyWrites, 0, len(t.of))
	for _, k := range t.of {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b KeyWrites) int {
		return cmp.Or(cmp.Compare(b.Writes, a.Writes), bytes.Compare(a.Key, b.Key))
	})
	w.Keys, w.Distinct = slices.Clone(all[:min(topShown, len(all))]), t.distinct
}
