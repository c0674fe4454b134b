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

// liveKeys is how many keys are remembered at a time, in 14 to 17 bytes each. A
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
			t := newLiveTable(f, keys, set)
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
// set up to date. It is an open-addressing table that grows where it is: the
// slices are much longer than what is in use, which costs address space and no
// memory until it is written to. So there is never a second copy of the table, and
// nothing is left behind for the garbage collector.
type liveTable struct {
	max, used int
	size      int      // homes of the hashes; those behind are for what found its home taken
	end       int      // behind the last slot that is taken
	hashes    []uint64 // 0 is a free slot
	last      []uint32 // index + 1; 0 says that the key was deleted
	set       *LiveSet
	moving    []liveEntry // while the table grows
}

type liveEntry struct {
	hash uint64
	last uint32
}

// newLiveTable makes a table with room for as many keys as a file has pages, which
// is more than most have, and never has to be moved then.
func newLiveTable(f *File, most int, set *LiveSet) *liveTable {
	t := &liveTable{max: most, set: set}
	t.reserve(2 * int(min(f.header.Pages, uint64(8*most/7)))) //nolint:gosec // at most some millions
	return t
}

// add takes a record. Of the hash the low bits choose the part of the keys
// (liveAt), the high ones the slot.
func (t *liveTable) add(hash uint64, r *Record) error {
	if hash == 0 {
		hash = 1
	}
	if t.used >= t.size/8*7 {
		t.grow()
	}
	i := t.slot(hash)
	if t.hashes[i] == 0 {
		if t.used >= t.max {
			return errTableFull
		}
		t.hashes[i] = hash
		t.used++
		t.end = max(t.end, i+1)
	} else if old := t.last[i]; old != 0 {
		t.set.clear(int64(old) - 1)
	}
	t.last[i] = 0
	if !r.Tombstone {
		t.last[i] = uint32(r.Index) + 1 //nolint:gosec // a file of 2^32 records is far above what etcd can hold
		t.set.set(r.Index)
	}
	return nil
}

// slot finds a hash's place, or the free one where it belongs: at its home or
// behind. The slices end no sooner than size slots behind the last home, and fewer
// than that are taken.
func (t *liveTable) slot(hash uint64) int {
	i := int((hash >> 32) * uint64(t.size) >> 32) //nolint:gosec // below the size
	for t.hashes[i] != 0 && t.hashes[i] != hash {
		i++
	}
	return i
}

// grow adds a quarter of homes. A larger hash has its home behind that of a smaller
// one, and so moves behind it: the entries are taken from the end, one unbroken run
// at a time, and go where all of what is still to be moved is before them.
func (t *liveTable) grow() {
	const least, further = 1 << 10, 8
	t.size = max(least, t.size+t.size/4)
	if 2*t.size > len(t.hashes) {
		t.reserve(further * 2 * t.size)
	}
	end := t.end
	t.end = 0
	for end > 0 {
		begin := end
		for begin > 0 && t.hashes[begin-1] != 0 {
			begin--
			t.moving = append(t.moving, liveEntry{t.hashes[begin], t.last[begin]})
			t.hashes[begin], t.last[begin] = 0, 0
		}
		for _, e := range t.moving {
			to := t.slot(e.hash)
			t.hashes[to], t.last[to] = e.hash, e.last
			t.end = max(t.end, to+1)
		}
		t.moving = t.moving[:0]
		end = begin - 1
	}
}

// reserve makes the slices so long.
func (t *liveTable) reserve(slots int) {
	hashes, last := t.hashes, t.last
	t.hashes, t.last = make([]uint64, slots), make([]uint32, slots)
	copy(t.hashes, hashes[:t.end])
	copy(t.last, last[:t.end])
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
