package dbfile

import (
	"context"
	"errors"
	"hash/maphash"
)

// LiveSet says which records of a file are the state of their key at a revision:
// the last one up to it, unless that says that the key was deleted.
type LiveSet struct {
	bits    []uint64
	records int64
	live    int64
}

// Has reports whether the record with this index (Record.Index) is live.
func (s *LiveSet) Has(index int64) bool {
	return index >= 0 && index/64 < int64(len(s.bits)) && s.bits[index/64]&(1<<(index%64)) != 0
}

// Records returns how many records the bucket "key" has in all.
func (s *LiveSet) Records() int64 { return s.records }

// Live returns how many of them are live.
func (s *LiveSet) Live() int64 { return s.live }

// liveKeys is how many keys are remembered at a time, in 14 to 21 bytes each. A
// file with more of them is read once for each part of its keys.
const liveKeys = 3 << 20

// LiveAt finds the records that are live at a revision, 0 for the latest. It reads
// the bucket "key" once, or more often where there are more than some millions
// of keys, and needs one bit per record besides.
//
// Keys are told apart by a 64-bit hash with a seed of its own in each call, so
// that two of a million keys are taken for one with a probability of 3 in 10^8.
func (f *File) LiveAt(ctx context.Context, revision int64) (*LiveSet, error) {
	return f.liveAt(ctx, revision, liveKeys, f.stopped)
}

func (f *File) liveAt(ctx context.Context, revision int64, keys int, damage func(*Damage) error) (*LiveSet, error) {
	for parts := uint64(1); ; parts *= 2 {
		set := &LiveSet{}
		seed := maphash.MakeSeed()
		err := errTableFull
		for part := range parts {
			t := &liveTable{max: keys, set: set}
			err = f.keyRecords(ctx, nil, func(r *Record) error {
				if part == 0 {
					set.records++
				}
				hash := maphash.Bytes(seed, r.Key)
				if revision > 0 && r.Main > revision || hash%parts != part {
					return nil
				}
				return t.add(hash, r)
			}, damage)
			if err != nil {
				break
			}
		}
		if !errors.Is(err, errTableFull) {
			return set, err
		}
	}
}

// errTableFull says that a pass over the file met more keys than it may remember.
var errTableFull = errors.New("more keys than fit into the table")

// liveTable maps the hash of a key to the index of its last record, and keeps the
// set up to date. It is in segments that grow one by one, so that there is never a
// second copy of the whole.
type liveTable struct {
	max, used int
	segments  [256]liveSegment
	set       *LiveSet
}

// liveSegment is a table with open addressing. A hash of 0 is a free slot.
type liveSegment struct {
	hashes []uint64
	last   []uint32 // index + 1; 0 says that the key was deleted
	used   int
}

// add takes a record. Of the hash the low bits choose the part of the keys
// (liveAt), the highest the segment, those between the slot.
func (t *liveTable) add(hash uint64, r *Record) error {
	if hash == 0 {
		hash = 1
	}
	s := &t.segments[hash>>56]
	if s.used >= len(s.hashes)/8*7 {
		s.grow()
	}
	i := s.slot(hash)
	if s.hashes[i] == 0 {
		if t.used >= t.max {
			return errTableFull
		}
		s.hashes[i] = hash
		s.used++
		t.used++
	} else if old := s.last[i]; old != 0 {
		t.set.clear(int64(old) - 1)
	}
	s.last[i] = 0
	if !r.Tombstone {
		s.last[i] = uint32(r.Index) + 1 //nolint:gosec // a file of 2^32 records is far above what etcd can hold
		t.set.set(r.Index)
	}
	return nil
}

// slot finds a hash's place, or the free one where it belongs.
func (s *liveSegment) slot(hash uint64) int {
	i := int((hash >> 24 & (1<<32 - 1)) * uint64(len(s.hashes)) >> 32) //nolint:gosec // below the length
	for s.hashes[i] != 0 && s.hashes[i] != hash {
		if i++; i == len(s.hashes) {
			i = 0
		}
	}
	return i
}

func (s *liveSegment) grow() {
	old := *s
	size := max(16, (len(old.hashes)+len(old.hashes)/2)/8*8)
	s.hashes, s.last = make([]uint64, size), make([]uint32, size)
	for i, h := range old.hashes {
		if h != 0 {
			to := s.slot(h)
			s.hashes[to], s.last[to] = h, old.last[i]
		}
	}
}

func (s *LiveSet) set(i int64) {
	for int64(len(s.bits)) <= i/64 {
		s.bits = append(s.bits, 0)
	}
	s.bits[i/64] |= 1 << (i % 64)
	s.live++
}

func (s *LiveSet) clear(i int64) {
	s.bits[i/64] &^= 1 << (i % 64)
	s.live--
}
