package wal

import (
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"strings"
)

const (
	maxCounted = 32_768  // keys, and leases, that are kept before those with the least bytes are dropped; below 1<<16, see heavy.slots
	maxKeyText = 4 << 20 // bytes of keys that are kept before that is done as well

	// heavyChunk is how many are in one piece of memory: what grows by pieces is never
	// copied, and a page that is new costs more than what is written to it.
	heavyChunk = 256
	textChunk  = 16 << 10 // bytes of keys in one piece of memory: it is asked for less often than there are keys
	fewSlots   = 1024     // slots to begin with, a power of two
)

// heavy counts things of which there may be any number, and keeps those with the
// most bytes, of the same bytes those that came first: when there are too many, all
// but a quarter are dropped. What one of them can have had before it was dropped is
// in missed.
type heavy[V any] struct {
	chunks [][]counted[V] // as they came, each full but the last
	keys   strings.Builder
	n      int
	text   int // bytes of the keys
	missed Amount

	// Where each is found by its key: slots are probed one after the other from that of
	// the hash on. 0: empty; else the upper half of the hash, so that few others are
	// looked at, and below it one more than the number of what is there. A map would
	// need six times the memory, and that is what takes the time here.
	slots []uint32
	seed  maphash.Seed
}

type counted[V any] struct {
	k  string
	of V
	Amount
	hash uint32
}

// get returns what is counted of a key, or nil, and the key's hash. It is valid until
// the next put.
func (h *heavy[V]) get(key []byte) (c *counted[V], hash uint32) {
	if h.slots == nil {
		h.slots, h.seed = make([]uint32, fewSlots), maphash.MakeSeed()
	}
	hash = uint32(maphash.Bytes(h.seed, key)) //nolint:gosec // some of its bits
	for i := int(hash); ; i++ {
		slot := h.slots[i&(len(h.slots)-1)]
		if slot == 0 {
			return nil, hash
		}
		if (slot^hash)>>16 != 0 {
			continue
		}
		number := int(slot&0xffff) - 1
		if c = &h.chunks[number/heavyChunk][number%heavyChunk]; c.k == string(key) {
			return c, hash
		}
	}
}

// put adds one that is not there, as get has said, with the hash that it gave.
func (h *heavy[V]) put(key []byte, hash uint32, v V) *counted[V] {
	if h.n >= maxCounted || h.text+len(key) > maxKeyText && h.n > 0 {
		h.drop()
	}
	return h.add(counted[V]{k: h.keep(key), of: v, hash: hash})
}

// keep returns a copy of a key, in memory that it has together with others.
func (h *heavy[V]) keep(key []byte) string {
	if h.keys.Cap()-h.keys.Len() < len(key) {
		h.keys.Reset()
		h.keys.Grow(max(textChunk, len(key)))
	}
	h.keys.Write(key) //nolint:errcheck // never fails
	return h.keys.String()[h.keys.Len()-len(key):]
}

// add puts one behind the others. At most half of the slots are taken.
func (h *heavy[V]) add(c counted[V]) *counted[V] {
	if h.n%heavyChunk == 0 {
		h.begin()
	}
	last := &h.chunks[len(h.chunks)-1]
	*last = append(*last, c)
	h.n++
	h.text += len(c.k)
	if 2*h.n > len(h.slots) {
		h.slots = make([]uint32, 2*len(h.slots))
		number := 0
		for x := range h.each() {
			number++
			h.take(x.hash, number)
		}
	} else {
		h.take(c.hash, h.n)
	}
	return &(*last)[len(*last)-1]
}

// begin begins another chunk, in the memory of one that was dropped if there is any.
func (h *heavy[V]) begin() {
	n := len(h.chunks)
	h.chunks = slices.Grow(h.chunks, 1)[:n+1]
	if h.chunks[n] == nil {
		h.chunks[n] = make([]counted[V], 0, heavyChunk)
	}
	h.chunks[n] = h.chunks[n][:0]
}

// take has the first free slot name what is not yet in any.
func (h *heavy[V]) take(hash uint32, number int) {
	i := int(hash) & (len(h.slots) - 1)
	for h.slots[i] != 0 {
		i = (i + 1) & (len(h.slots) - 1)
	}
	h.slots[i] = hash&^0xffff | uint32(number) //nolint:gosec // at most maxCounted
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

// drop keeps a quarter. Their keys are copied, so that none is left in memory for
// another that was kept beside it.
func (h *heavy[V]) drop() {
	stay := h.n / 4
	least, ties := int64(math.MaxInt64), 0 // those with more stay, and of those with as much the first
	if stay > 0 {
		sizes := make([]int64, 0, h.n)
		for x := range h.each() {
			sizes = append(sizes, x.Bytes)
		}
		slices.Sort(sizes)
		least = sizes[h.n-stay]
		larger, _ := slices.BinarySearch(sizes, least+1)
		ties = stay - (h.n - larger)
	}

	all := h.chunks
	h.chunks, h.n, h.text = all[:0], 0, 0 // what stays moves to the front
	h.keys.Reset()
	clear(h.slots)
	var most Amount
	for _, chunk := range all {
		for _, c := range chunk { // a copy: its place may be taken by then
			tie := c.Bytes == least && ties > 0
			if tie {
				ties--
			}
			if tie || c.Bytes > least {
				c.k = h.keep([]byte(c.k))
				h.add(c)
				continue
			}
			most = Amount{Count: max(most.Count, c.Count), Bytes: max(most.Bytes, c.Bytes)}
		}
	}
	for i, chunk := range all { // no key of what is gone stays in memory
		clear(chunk[min(max(0, h.n-i*heavyChunk), heavyChunk):heavyChunk])
	}
	h.missed.join(most)
}

// join adds what another has counted of what came later. What either has dropped of
// something, it may have had in both.
func (h *heavy[V]) join(next *heavy[V]) {
	h.missed.join(next.missed)
	for x := range next.each() {
		key := []byte(x.k)
		mine, hash := h.get(key)
		if mine == nil {
			mine = h.put(key, hash, x.of)
		}
		mine.join(x.Amount)
	}
}
