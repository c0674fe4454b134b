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

func newSorter(limit int64, dir string) *sorter { return &sorter{limit: limit, dir: dir} }

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
// eight bytes that follow, which are looked up once, and those that have these in
// common as well by the next eight. Keys have long beginnings in common, and are
// far apart in memory.
func (s *sorter) sortFrom(items []item, depth int) {
	for len(items) > few {
		longer := false
		for i := range items {
			var more bool
			items[i].head, more = headOf(s.key(items[i].at), depth)
			longer = longer || more
		}
		slices.SortFunc(items, func(a, b item) int {
			return cmp.Or(cmp.Compare(a.head, b.head), cmp.Compare(a.at, b.at))
		})
		if !longer {
			break // a zero byte and no byte have the same head: their length tells them apart
		}
		depth += 8
		if items[0].head == items[len(items)-1].head {
			continue // in place of a call, which would be one for each eight bytes of a key
		}
		for from := 0; from < len(items); {
			to := from + 1
			for to < len(items) && items[to].head == items[from].head {
				to++
			}
			if to-from > 1 {
				s.sortFrom(items[from:to], depth)
			}
			from = to
		}
		return
	}
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(bytes.Compare(s.key(a.at), s.key(b.at)), cmp.Compare(a.at, b.at))
	})
}

// headOf returns eight bytes of a key as a number that compares as they do, and
// whether the key has bytes behind them.
func headOf(key []byte, depth int) (uint64, bool) {
	if depth+8 <= len(key) {
		return binary.BigEndian.Uint64(key[depth:]), len(key) > depth+8
	}
	var b [8]byte
	if depth < len(key) {
		copy(b[:], key[depth:])
	}
	return binary.BigEndian.Uint64(b[:]), false
}
