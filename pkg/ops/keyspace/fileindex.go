package keyspace

import (
	"context"
	"runtime"
	"sync/atomic"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/progress"
)

// reportEvery is how many records are read between two events.
const reportEvery = 1 << 16

// sorted calls fn for each change of the range up to a revision, in the order of
// keys and of each key's changes. Records are in the file in the order of their
// revisions, so the keys are sorted first, with where each record is beside it.
func (s *FileSource) sorted(ctx context.Context, q Query, rev int64, fn func(*Change) error) error {
	sorters := make([]*sorter, min(runtime.GOMAXPROCS(0), maxWorkers))
	defer func() {
		for _, w := range sorters {
			w.close() //nolint:errcheck // a file without a name
		}
	}()
	for i := range sorters {
		sorters[i] = newSorter(s.o.Memory/int64(len(sorters)), s.o.SpoolDir)
	}
	var done atomic.Int64
	err := s.db.RecordsBeside(ctx, len(sorters), func(worker int, r *dbfile.Record) error {
		if n := done.Add(1); n%reportEvery == 0 {
			s.o.Sink.Event(progress.Event{Op: s.o.Op, Subject: s.path, Phase: "reading revisions", Done: n, Unit: "revisions"})
		}
		if r.Main > rev || len(r.Key) == 0 || !q.contains(r.Key) {
			return nil
		}
		var body [maxBody]byte
		return sorters[worker].add(r.Key, appendChange(body[:0], changeOf(r)))
	})
	if err = s.torn(err); err != nil {
		return err
	}
	var c Change
	return merged(sorters, func(key, body []byte) error {
		c = parseChange(key, body)
		return fn(&c)
	})
}

// maxWorkers bounds how many parts of a file are read at the same time.
const maxWorkers = 4

// changeOf makes a change of a record, without its value.
func changeOf(r *dbfile.Record) *Change {
	c := Change{Sub: r.Sub, Tombstone: r.Tombstone}
	c.Key, c.ModRevision, c.Size = r.Key, r.Main, r.Size()
	if !r.Tombstone {
		c.CreateRevision, c.Version, c.Lease = r.CreateRevision, r.Version, r.Lease
		c.ref = reference{r.Offset, int64(len(r.RawValue))}
	}
	return &c
}
