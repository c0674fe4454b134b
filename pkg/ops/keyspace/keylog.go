package keyspace

import (
	"hash/maphash"
	"math"
	"sync"
	"unsafe"

	"kvd/pkg/ops/dbfile"
)

// keyLog holds what one reader of a file keeps of each record, until the records of
// each key are put together. Keys are told apart by a 64-bit hash: of a million keys
// two are taken for one with a probability of 3 in 10^8.
//
// A table of all keys would be looked up for each record somewhere in tens of
// megabytes, and waiting for that memory takes longer than all else. So records are
// only written down, in shares by the first bits of their hash, and a share is put
// together as a whole, in what the processor's cache can hold.
type keyLog struct {
	max, n int // how many records there may be, and are
	shares [keyShares]keyShare
	folder keyFolder
}

const (
	keyShares    = 1 << keyShareBits
	chunkRecords = 64 // records in a chunk

	keyShareBits   = 8
	keyRecordBytes = 32
)

// keyRecord is what is kept of a record, or the latest of a key's records.
type keyRecord struct {
	hash  uint64
	at    int64  // where in the file its value begins; the complement of that for a tombstone
	mark  uint64 // what whoever reads wants to know of it besides
	size  uint32 // bytes, of which ones whoever reads says
	count uint32 // records of the key
}

type keyChunk [chunkRecords]keyRecord

// keyShare is a list of records from the oldest to the newest.
type keyShare struct {
	tail   *keyChunk // the last of them
	n      int
	chunks []*keyChunk
}

// newKeyLog returns a log for so many bytes of records. older, if it is not nil, is
// called with two records of a key before the newer one takes the place of both. Those
// of one log follow on each other; where logs are put together, what one of them has
// put together already is in between.
func newKeyLog(memory int64, older func(old, newer *keyRecord)) *keyLog {
	const least = 4
	return &keyLog{max: max(least, int(memory/keyRecordBytes)), folder: keyFolder{older: older}}
}

func (r *keyRecord) tombstone() bool { return r.at < 0 }

// place returns where the record's value begins.
func (r *keyRecord) place() int64 {
	if r.at < 0 {
		return ^r.at
	}
	return r.at
}

// add takes a record, with what is to be kept as its size and mark. It is
// errTableFull where there is no room for one record of each key.
func (l *keyLog) add(hash uint64, r *dbfile.Record, size int64, mark uint64) error {
	if l.n >= l.max {
		if err := l.fold(); err != nil {
			return err
		}
	}
	s := &l.shares[hash>>(64-keyShareBits)]
	if s.n == len(s.chunks)*chunkRecords {
		s.extend(l.folder.chunk())
	}
	k := &s.tail[s.n%chunkRecords]
	s.n++
	l.n++
	k.hash, k.at, k.mark, k.count = hash, r.Offset, mark, 1
	k.size = uint32(min(size, math.MaxUint32)) //nolint:gosec // bounded
	if r.Tombstone {
		k.at = ^r.Offset
	}
	return nil
}

func (s *keyShare) at(i int) *keyRecord { return &s.chunks[uint(i)/chunkRecords][uint(i)%chunkRecords] }

func (s *keyShare) extend(c *keyChunk) { s.chunks, s.tail = append(s.chunks, c), c }

// fold puts together what is there. That must make room for a while, lest it be done
// again and again.
func (l *keyLog) fold() error {
	l.n = 0
	for i := range l.shares {
		l.folder.fold(&l.shares[i])
		l.n += l.shares[i].n
	}
	if l.n > l.max/4*3 {
		return errTableFull
	}
	return nil
}

// foldLogs puts together all shares of several logs, of which the later ones have
// the newer records, and calls done with each: on all cores, each worker with a
// folder of its own. The logs are empty then.
func foldLogs(logs []*keyLog, folders []*keyFolder, done func(worker int, s *keyShare)) {
	var wg sync.WaitGroup
	for w, f := range folders {
		wg.Go(func() {
			shares := make([]*keyShare, len(logs))
			for i := w; i < keyShares; i += len(folders) {
				for j, l := range logs {
					shares[j] = &l.shares[i]
				}
				f.fold(shares...)
				done(w, shares[0])
			}
		})
	}
	wg.Wait()
}

// keyFolder puts the records of each key together. It finds those of a share by their
// hash, with open addressing.
type keyFolder struct {
	older func(old, newer *keyRecord) // see newKeyLog
	share *keyShare
	slots []uint32 // index in the share + 1, 0 is free
	shift int
	free  []*keyChunk
}

func (f *keyFolder) chunk() *keyChunk {
	if len(f.free) == 0 {
		slab := make([]keyChunk, keyShares/4)
		for i := range slab {
			f.free = append(f.free, &slab[i])
		}
	}
	c := f.free[len(f.free)-1]
	f.free = f.free[:len(f.free)-1]
	return c
}

// fold puts together shares of which the later ones have the newer records. What is
// left is in the first one: of each key one record, the latest, with the number of
// all.
func (f *keyFolder) fold(shares ...*keyShare) {
	n := 0
	for _, s := range shares {
		n += s.n
	}
	out := shares[0]
	f.reset(out, n)
	kept := 0
	for _, s := range shares {
		for i := range s.n {
			r := s.at(i)
			slot := f.slot(r.hash)
			if *slot != 0 {
				f.replace(out.at(int(*slot)-1), r)
				continue
			}
			if kept == len(out.chunks)*chunkRecords {
				out.extend(f.chunk())
			}
			*out.at(kept) = *r
			kept++
			*slot = uint32(kept) //nolint:gosec // far below
		}
		if s != out {
			f.free = append(f.free, s.chunks...)
			*s = keyShare{}
		}
	}
	used := (kept + chunkRecords - 1) / chunkRecords
	f.free = append(f.free, out.chunks[used:]...)
	out.chunks, out.n, out.tail = out.chunks[:used], kept, nil
	if used > 0 {
		out.tail = out.chunks[used-1]
	}
}

// replace puts a newer record in the place of an older one of its key.
func (f *keyFolder) replace(old, newer *keyRecord) {
	if f.older != nil {
		f.older(old, newer)
	}
	count := old.count + newer.count
	*old = *newer
	old.count = count
}

// fill takes a share that was put together.
func (f *keyFolder) fill(s *keyShare) {
	f.reset(s, s.n)
	for i := range s.n {
		*f.slot(s.at(i).hash) = uint32(i) + 1 //nolint:gosec // far below
	}
}

func (f *keyFolder) reset(s *keyShare, n int) {
	const least = 4
	bits := least
	for 1<<bits < 2*n {
		bits++
	}
	f.share, f.shift = s, 64-bits
	if cap(f.slots) < 1<<bits {
		f.slots = make([]uint32, 1<<bits)
		return
	}
	f.slots = f.slots[:1<<bits]
	clear(f.slots)
}

// slot finds a hash's place, or the free one where it belongs.
func (f *keyFolder) slot(hash uint64) *uint32 {
	i := hash << keyShareBits >> f.shift
	for f.slots[i] != 0 && f.share.at(int(f.slots[i])-1).hash != hash {
		if i++; i == uint64(len(f.slots)) {
			i = 0
		}
	}
	return &f.slots[i]
}

// find returns the record of a hash, nil for none.
func (f *keyFolder) find(hash uint64) *keyRecord {
	if i := *f.slot(hash); i != 0 {
		return f.share.at(int(i) - 1)
	}
	return nil
}

// hashOf hashes bytes as a whole: maphash.Bytes takes them in pieces of 128, which
// has a sixth of the speed where they are many.
func hashOf(seed maphash.Seed, b []byte) uint64 {
	return maphash.Comparable(seed, unsafe.String(unsafe.SliceData(b), len(b))) // which keeps nothing of it
}
