package keyspace

import (
	"context"
	"errors"
	"hash/maphash"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/progress"
)

// TellApart reads two files, each at the revision of its query, and returns of each
// what the other one does not have just so. The queries differ in nothing but their
// revision. What is left out is in both files with the same record, byte for byte; of
// a query without values, with the same revisions and version.
//
// Keys, and whether records are the same, are told by 64-bit hashes with a seed of
// their own in each call: of a million keys two are taken for one with a probability
// of 3 in 10^8, and of a million records that differ one for the same with 5 in 10^14.
// Memory is bounded by FileOptions: of files with more keys than fit into that, some
// millions in each, all is read once for each part of them.
//
// Errors are those of Source.Keys. Close both that are returned.
func TellApart(ctx context.Context, a, b *FileSource, qa, qb Query) (ofA, ofB *Rest, err error) {
	p := &apart{a: &apartSide{s: a, q: qa}, b: &apartSide{s: b, q: qb}}
	for _, side := range []*apartSide{p.a, p.b} {
		if side.q.Rev, err = side.s.bound.Revision(side.s.path, side.q.Rev); err != nil {
			return nil, nil, err
		}
	}
	if err := p.run(ctx); err != nil {
		return nil, nil, errors.Join(err, p.close())
	}
	return p.a.rest, p.b.rest, nil
}

// apart is a comparison of two files under way.
type apart struct {
	a, b        *apartSide
	seed        maphash.Seed
	parts, part uint64 // of all keys, by their hash, the ones that are compared now
}

// apartSide is one of the files.
type apartSide struct {
	s    *FileSource
	q    Query
	log  *keyLog // of each key of the part the latest record
	rest *Rest
	done atomic.Int64
}

// run reads both files, more often if there are too many keys to know all at a time.
func (p *apart) run(ctx context.Context) error {
	for p.parts = 1; ; p.parts *= 2 {
		p.seed = maphash.MakeSeed()
		p.a.rest, p.b.rest = newRest(p.a), newRest(p.b)
		err := error(nil)
		for p.part = 0; p.part < p.parts && err == nil; p.part++ {
			err = p.pass(ctx)
		}
		if !errors.Is(err, errTableFull) {
			return err
		}
		if err := p.close(); err != nil {
			return err
		}
	}
}

// close gives back what the sides have in files.
func (p *apart) close() error { return errors.Join(p.a.rest.Close(), p.b.rest.Close()) }

// pass compares a part of the keys.
func (p *apart) pass(ctx context.Context) error {
	for _, side := range []*apartSide{p.a, p.b} { // one after the other, each on all cores
		if err := p.read(ctx, side); err != nil {
			return err
		}
	}
	var ofA, ofB []place
	beside(func() { ofA = p.a.log.without(p.b.log) }, func() { ofB = p.b.log.without(p.a.log) })
	p.a.log, p.b.log = nil, nil // the memory is wanted for what is left
	var errA, errB error
	beside(func() { errA = p.a.rest.add(ctx, p.seed, ofA) }, func() { errB = p.b.rest.add(ctx, p.seed, ofB) })
	return errors.Join(errA, errB)
}

// beside calls two functions at the same time.
func beside(a, b func()) {
	var wg sync.WaitGroup
	wg.Go(a)
	b()
	wg.Wait()
}

// read fills the log of a side.
func (p *apart) read(ctx context.Context, side *apartSide) error {
	logs := make([]*keyLog, min(runtime.GOMAXPROCS(0), maxWorkers))
	for i := range logs {
		logs[i] = newKeyLog(side.s.o.Memory/int64(len(logs)), nil)
	}
	err := side.s.db.RecordsBeside(ctx, len(logs), func(worker int, r *dbfile.Record) error {
		if r.Index%tellEvery == tellEvery-1 {
			side.s.o.Sink.Event(progress.Event{Op: side.s.o.Op, Subject: side.s.path, Phase: "reading revisions", Done: side.done.Add(tellEvery), Unit: "revisions"})
		}
		if r.Main > side.q.Rev || len(r.Key) == 0 || !side.q.contains(r.Key) {
			return nil
		}
		hash := hashOf(p.seed, r.Key)
		if hash%p.parts != p.part {
			return nil
		}
		return logs[worker].add(hash, r, int64(len(r.RawValue)), side.q.print(p.seed, r.RawValue, &r.KeyValue))
	})
	if errors.Is(err, errTableFull) {
		return err
	}
	if err := side.s.torn(err); err != nil {
		return err
	}
	folders := make([]*keyFolder, len(logs))
	for i := range folders {
		folders[i] = &keyFolder{}
	}
	foldLogs(logs, folders, func(int, *keyShare) {})
	side.log = logs[0]
	return nil
}

// print is what two records have in common that are the same.
func (q Query) print(seed maphash.Seed, raw []byte, kv *dbfile.KeyValue) uint64 {
	if q.KeysOnly {
		return maphash.Comparable(seed, [...]int64{kv.CreateRevision, kv.ModRevision, kv.Version})
	}
	return hashOf(seed, raw)
}

// place says where a record is.
type place struct {
	at          int64
	size, check uint32 // check is of what it was told by, so that another one is noticed
}

// end returns where the record ends.
func (p place) end() int64 { return p.at + int64(p.size) }

// check is what is kept of a record's hash and mark.
func check(hash, mark uint64) uint32 {
	both := hash ^ bits.RotateLeft64(mark, 1)
	return uint32(both ^ both>>32) //nolint:gosec // half of the bits
}

// without returns the live records that another log does not have with the same mark.
// Both logs may be asked at the same time. The records of this one have no count then.
func (l *keyLog) without(other *keyLog) []place {
	left := 0
	var theirs keyFolder
	for i := range l.shares {
		theirs.fill(&other.shares[i])
		s := &l.shares[i]
		for j := range s.n {
			r := s.at(j)
			r.count = 0
			if r.tombstone() {
				continue
			}
			if t := theirs.find(r.hash); t == nil || t.tombstone() || t.mark != r.mark {
				r.count = 1
				left++
			}
		}
	}
	out := make([]place, 0, left) // all at once: what a slice leaves behind that grows is several times as much
	for i := range l.shares {
		s := &l.shares[i]
		for j := range s.n {
			if r := s.at(j); r.count > 0 {
				out = append(out, place{r.at, r.size, check(r.hash, r.mark)})
			}
		}
	}
	return out
}
