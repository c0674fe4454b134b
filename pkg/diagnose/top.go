package diagnose

import (
	"bytes"
	"cmp"
	"slices"

	"kvd/pkg/ops/keyspace"
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

// groupTally counts writes by the groups of keys that were found.
type groupTally struct {
	groups []keyspace.Group
	of     []GroupWrites
}

func newGroupTally(u *keyspace.Usage) *groupTally {
	t := &groupTally{groups: u.Groups}
	for _, g := range u.Groups {
		t.of = append(t.of, GroupWrites{Name: groupName(g), Resource: g.Resource, Prefix: string(g.Prefix)})
	}
	return t
}

// add counts a write for the group with the longest prefix. What is in none is not
// counted: it has gone, or came after the look.
func (t *groupTally) add(key []byte, size int64) {
	best := -1
	for i, g := range t.groups {
		if bytes.HasPrefix(key, []byte(g.Prefix)) && (best < 0 || len(g.Prefix) > len(t.groups[best].Prefix)) {
			best = i
		}
	}
	if best >= 0 {
		t.of[best].Writes, t.of[best].Bytes = t.of[best].Writes+1, t.of[best].Bytes+size
	}
}

// fill puts those of which most bytes were written into w.
func (t *groupTally) fill(w *Writes) {
	all := slices.DeleteFunc(t.of, func(g GroupWrites) bool { return g.Writes == 0 })
	slices.SortFunc(all, func(a, b GroupWrites) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Prefix, b.Prefix))
	})
	w.Groups = slices.Clone(all[:min(topShown, len(all))])
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
