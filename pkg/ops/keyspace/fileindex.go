package keyspace

import (
	"context"
	"runtime"
	"sync/atomic"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/progress"
)

// sorted calls fn for each change of the range up to a revision, in the order of
// keys and of each key's changes. Records are in the file in the order of their
// revisions, so the keys are sorted first, with where each record is beside it.
func (s *FileSource) sorted(ctx context.Context, q Query, rev int64, fn func(*Change) error) error {
	x := s.newIndex(func(body []byte, r *dbfile.Record) ([]byte, bool) {
		if r.Main > rev || len(r.Key) == 0 || !q.contains(r.Key) {
			return nil, false
		}
		return appendChange(body, changeOf(r)), true
	})
	defer x.close()
	if err := s.torn(s.db.RecordsBeside(ctx, x.workers(), x.add)); err != nil {
		return err
	}
	var c Change
	err := merged(x.sorters, func(key, body []byte) error {
		c = parseChange(key, body)
		return fn(&c)
	})
	if err != nil {
		return err
	}
	return s.torn(nil)
}

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

// index takes the records of a file from several readers at a time and sorts them
// by their keys: each reader's on their own, which are merged in the end.
type index struct {
	sorters []*sorter
	bodies  [maxWorkers][]byte
	// body appends what is kept of a record beside its key, or says that it is
	// not wanted.
	body func(b []byte, r *dbfile.Record) ([]byte, bool)
	done atomic.Int64
	tell func(done int64)
}

const (
	// maxWorkers bounds how many parts of a file are read at the same time.
	maxWorkers = 4
	// tellEvery is how many records are read between two events.
	tellEvery = 1 << 16
)

func (s *FileSource) newIndex(body func([]byte, *dbfile.Record) ([]byte, bool)) *index {
	n := min(runtime.GOMAXPROCS(0), maxWorkers)
	x := &index{sorters: make([]*sorter, n), body: body, tell: func(done int64) {
		s.o.Sink.Event(progress.Event{Op: s.o.Op, Subject: s.path, Phase: "reading revisions", Done: done, Unit: "revisions"})
	}}
	for i := range x.sorters {
		x.sorters[i] = newSorter(s.o.Memory/int64(n), s.db.Size()/int64(n), s.o.SpoolDir)
	}
	return x
}

func (x *index) workers() int { return len(x.sorters) }

func (x *index) add(worker int, r *dbfile.Record) error {
	if r.Index%tellEvery == tellEvery-1 {
		x.tell(x.done.Add(tellEvery))
	}
	body, wanted := x.body(x.bodies[worker][:0], r)
	if !wanted {
		return nil
	}
	x.bodies[worker] = body
	return x.sorters[worker].add(r.Key, body)
}

func (x *index) close() {
	for _, s := range x.sorters {
		s.close() //nolint:errcheck // a file without a name
	}
}
