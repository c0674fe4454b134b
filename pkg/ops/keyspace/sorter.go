package keyspace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// A sorter puts records into the order of their keys: those that fit into its
// memory at a time are a run, which is sorted and, when the next one begins,
// written to a file without a name. Records of one key keep the order they came in.
//
// In memory a record is its key and a body, one behind the other:
//
//	length of key, length of body (uvarint), key, body
type sorter struct {
	limit int64 // bytes of memory for a run
	dir   string
	data  []byte
	items []item
	runs  []stored // of earlier runs
	spill *spillFile
}

// item is a record of the run in hand, with the eight bytes of its key that are
// compared now.
type item struct {
	head uint64
	at   uint32 // in data
}

const itemSize = 16

// newSorter returns a sorter that expects so many bytes of keys and bodies.
func newSorter(limit, expected int64, dir string) *sorter {
	return &sorter{limit: limit, dir: dir, data: make([]byte, 0, min(limit, expected))}
}

// expect makes room for so many records more, with so many bytes of keys and bodies in
// all, as far as the memory may go: slices that grow leave several times as much behind.
func (s *sorter) expect(records int, bytes int64) {
	free := max(0, s.limit-int64(len(s.data))-int64(len(s.items))*itemSize)
	if most := bytes + int64(records)*itemSize; most > free { // then some of it at a time
		records, bytes = int(float64(records)*float64(free)/float64(most)), int64(float64(bytes)*float64(free)/float64(most))
	}
	s.items, s.data = slices.Grow(s.items, records), slices.Grow(s.data, int(bytes))
}

// add takes a record; both slices are copied.
func (s *sorter) add(key, body []byte) error {
	need := int64(len(key) + len(body) + 2*binary.MaxVarintLen32)
	if len(s.items) > 0 && int64(len(s.data))+int64(len(s.items)+1)*itemSize+need > s.limit {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.items = append(s.items, item{at: uint32(len(s.data))}) //nolint:gosec // below the limit, which is far below 4 GiB
	s.data = binary.AppendUvarint(s.data, uint64(len(key)))
	s.data = binary.AppendUvarint(s.data, uint64(len(body)))
	s.data = append(append(s.data, key...), body...)
	return nil
}

// flush sorts the run in hand and writes it away.
func (s *sorter) flush() error {
	s.sort()
	if s.spill == nil {
		var err error
		if s.spill, err = newSpillFile(s.dir); err != nil {
			return err
		}
	}
	run, err := s.spill.write(s)
	s.runs = append(s.runs, run)
	s.data, s.items = s.data[:0], s.items[:0]
	return err
}

// close gives the file back.
func (s *sorter) close() error {
	s.data, s.items = nil, nil
	if s.spill == nil {
		return nil
	}
	return s.spill.file.Close()
}

// record returns what is at a place in the run.
func (s *sorter) record(at uint32) (key, body []byte) {
	b := s.data[at:]
	k, n := binary.Uvarint(b)
	v, m := binary.Uvarint(b[n:])
	b = b[n+m:]
	return b[:k:k], b[k : k+v : k+v]
}

func (s *sorter) key(at uint32) []byte {
	key, _ := s.record(at)
	return key
}

func (s *sorter) sort() { s.sortFrom(s.items, 0) }

// few is how many records are sorted by comparing their keys as a whole.
const few = 12

// sortFrom sorts records whose keys have their first depth bytes in common: by the
// eight bytes behind all that they have in common, which are looked up once, and
// those that share these too likewise. Keys have long beginnings in common, and
// are far apart in memory.
func (s *sorter) sortFrom(items []item, depth int) {
	depth, more := s.common(items, depth)
	if len(items) <= few || !more {
		slices.SortFunc(items, s.byKey)
		return
	}
	for i := range items {
		items[i].head = headOf(s.key(items[i].at), depth)
	}
	slices.SortFunc(items, byHead)
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && items[to].head == items[from].head {
			to++
		}
		if to-from > 1 {
			s.sortFrom(items[from:to], depth+8)
		}
		from = to
	}
}

// byHead compares what was looked up of two keys; of equal ones the older is first.
func byHead(a, b item) int {
	switch {
	case a.head < b.head || a.head == b.head && a.at < b.at:
		return -1
	case a.at == b.at:
		return 0
	}
	return 1
}

func (s *sorter) byKey(a, b item) int {
	if c := bytes.Compare(s.key(a.at), s.key(b.at)); c != 0 {
		return c
	}
	return cmp.Compare(a.at, b.at)
}

// common returns how many bytes all keys have in common that are known to share
// depth of them. It is false where one of them has no more than these: then bytes
// of zero and none at all cannot be told apart by their heads.
func (s *sorter) common(items []item, depth int) (int, bool) {
	if len(items) <= few {
		return depth, false
	}
	first := s.key(items[0].at)
	n, shortest := len(first), len(first)
	for _, it := range items[1:] {
		key := s.key(it.at)
		shortest = min(shortest, len(key))
		if n = min(n, shortest); n <= depth {
			break
		}
		if !bytes.Equal(key[depth:n], first[depth:n]) {
			for n = depth; key[n] == first[n]; n++ { //nolint:revive // counts
			}
		}
	}
	return max(n, depth), shortest > max(n, depth)
}

// headOf returns the eight bytes of a key behind the first depth ones, as a number
// that compares as they do.
func headOf(key []byte, depth int) uint64 {
	if depth+8 <= len(key) {
		return binary.BigEndian.Uint64(key[depth:])
	}
	var b [8]byte
	copy(b[:], key[min(depth, len(key)):])
	return binary.BigEndian.Uint64(b[:])
}
