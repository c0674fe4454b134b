package wal

import (
	"cmp"
	"hash/maphash"
	"iter"
	"slices"
)

const (
	maxCounted = 32_768  // keys, and leases, that are kept before those with the least bytes are dropped
	maxKeyText = 8 << 20 // bytes of keys that are kept before that is done as well

	// heavyChunk is how many are in one piece of memory: what grows by pieces is never
	// copied, and a page that is new costs more than what is written to it.
	heavyChunk = 256
	fewSlots   = 1024 // slots to begin with, a power of two
)

// heavy counts things of which there may be any number, and keeps those with the
// most bytes, of the same bytes those that came first: when there are too many, all
// but a quarter are dropped. What one of them can have had before it was dropped is
// in missed.
type heavy[V any] struct {
	chunks [][]counted[V] // as they came, each full but the last
	n      int
	text   int // bytes of the keys
	missed Amount

	// Where each is found by its key: slots are probed one after the other from that of
	// the hash on. 0: empty; else one more than the number of what is there. A map would
	// need six times the memory, and that is what takes the time here.
	slots []int32
	seed  maphash.Seed
}

type counted[V any] struct {
	k  string
	of V
	Amount
	came int32
	hash uint32
}

// get returns what is counted of a key, or nil. It is valid until the next put.
func (h *heavy[V]) get(key []byte) *counted[V] {
	if h.n == 0 {
		return nil
	}
	return h.at(h.slots[h.slot(key, h.hash(key))])
}

// put adds one that is not there.
func (h *heavy[V]) put(key []byte, v V) *counted[V] {
	if h.n >= maxCounted || h.text+len(key) > maxKeyText && h.n > 1 {
		h.drop()
	}
	if h.slots == nil {
		h.slots, h.seed = make([]int32, fewSlots), maphash.MakeSeed()
	}
	return h.add(counted[V]{k: string(key), of: v, hash: h.hash(key)})
}

// add puts one behind the others. At most half of the slots are taken.
func (h *heavy[V]) add(c counted[V]) *counted[V] {
	if h.n%heavyChunk == 0 {
		h.chunks = append(h.chunks, make([]counted[V], 0, heavyChunk))
	}
	last := &h.chunks[len(h.chunks)-1]
	*last = append(*last, c)
	h.n++
	h.text += len(c.k)
	if 2*h.n > len(h.slots) {
		h.slots = make([]int32, 2*len(h.slots))
		number := int32(0)
		for x := range h.each() {
			number++
			h.slots[h.free(x.hash)] = number
		}
	} else {
		h.slots[h.free(c.hash)] = int32(h.n) //nolint:gosec // at most maxCounted
	}
	return &(*last)[len(*last)-1]
}

// at returns what a slot names.
func (h *heavy[V]) at(number int32) *counted[V] {
	if number == 0 {
		return nil
	}
	i := int(number) - 1
	return &h.chunks[i/heavyChunk][i%heavyChunk]
}

func (h *heavy[V]) hash(key []byte) uint32 {
	return uint32(maphash.Bytes(h.seed, key)) //nolint:gosec // some of its bits
}

// slot returns where a key is, or the empty slot where it would be.
func (h *heavy[V]) slot(key []byte, hash uint32) int {
	for i := int(hash); ; i++ {
		i &= len(h.slots) - 1
		c := h.at(h.slots[i])
		if c == nil || c.hash == hash && c.k == string(key) {
			return i
		}
	}
}

// free returns the empty slot for a key that is not there.
func (h *heavy[V]) free(hash uint32) int {
	i := int(hash) & (len(h.slots) - 1)
	for h.slots[i] != 0 {
		i = (i + 1) & (len(h.slots) - 1)
	}
	return i
}

// each goes through all, as they came.
func (h *heavy[V]) each() iter.Seq[*counted[V]] {
	return func(yield func(*counted[V]) bool) {
		for _, chunk := range h.chunks {
			for i := range chunk {
				if !yield(&chunk[i]) {
					return
				}
			}
		}
	}
}

func (h *heavy[V]) drop() {
	all := slices.Concat(h.chunks...)
	for i := range all {
		all[i].came = int32(i) //nolint:gosec // below maxCounted
	}
	slices.SortFunc(all, func(a, b counted[V]) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.came, b.came))
	})
	kept := len(all) / 4
	var most Amount
	for _, c := range all[kept:] {
		most = Amount{Count: max(most.Count, c.Count), Bytes: max(most.Bytes, c.Bytes)}
	}
	h.missed.join(most)
	h.chunks, h.n, h.text = nil, 0, 0
	clear(h.slots)
	for _, c := range all[:kept] {
		h.add(c)
	}
}

// join adds what another has counted of what came later. What either has dropped of
// something, it may have had in both.
func (h *heavy[V]) join(next *heavy[V]) {
	h.missed.join(next.missed)
	for x := range next.each() {
		key := []byte(x.k)
		mine := h.get(key)
		if mine == nil {
			mine = h.put(key, x.of)
		}
		mine.join(x.Amount)
	}
}
