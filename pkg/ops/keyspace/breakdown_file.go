package keyspace

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"runtime"
	"sync/atomic"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// BreakdownFile reads a file once, on all cores, and accounts for each of its
// bytes: what is live, older, or a deletion is counted in groups, and everything
// else by what it is. Memory is bounded by FileOptions: of a file with more keys than
// fit into twice that, some 2 millions, all is read once for each part of them.
//
// With a prefix only its keys are counted, and not the rest of the file.
func BreakdownFile(ctx context.Context, s *FileSource, o BreakdownOptions) (Breakdown, error) {
	b := o.report(s.Name(), s.bound)
	b.Exact = true
	c := &fileCount{s: s, o: o, q: o.query()}
	space, buckets, err := c.run(ctx)
	if err == nil {
		err = c.name()
	}
	if err = s.torn(err); err != nil {
		return b, err
	}
	c.all.fill(&b)
	c.all.unknown(s.o.Op, s.path, s.o.Sink)
	if o.Prefix != "" {
		return b, nil
	}
	root := c.all.root()
	b.File = &Parts{Size: s.db.Size(), Live: root.live, History: root.history, Deleted: root.deleted, OtherBuckets: space.Other, Branches: space.Branches,
		Leaves: space.Leaves, Free: space.Free, Meta: space.Meta, Tail: space.Tail, Buckets: buckets}
	if s.meta.CompactionPending() {
		b.File.Pending = s.meta.ScheduledCompact
	}
	if sum := b.File.Sum(); sum != b.File.Size {
		return b, &fault.Error{Kind: fault.Damage, Cause: "sum_mismatch", Op: s.o.Op, Subject: s.path,
			Msg:  fmt.Sprintf("what is in its pages adds up to %d bytes, and the file has %d: records overlap or have gaps between them", sum, b.File.Size),
			Hint: "`kvd snapshot verify` names what is damaged"}
	}
	return b, nil
}

// fileCount counts the records of a file by groups.
type fileCount struct {
	s           *FileSource
	o           BreakdownOptions
	q           Query
	seed        maphash.Seed
	parts, part uint64 // of all keys, by their hash, the ones that are counted now
	done        atomic.Int64
	all         *groups
}

// counter is what one reader has counted.
type counter struct {
	*fileCount
	worker uint64
	groups *groups
	since  node // deletions of which the record before is not kept
	log    *keyLog
}

var errTableFull = errors.New("more keys than fit into the table")

// run reads the file, more often if there are too many keys to know all at a time.
func (c *fileCount) run(ctx context.Context) (dbfile.Space, []dbfile.BucketSize, error) {
	for c.parts = 1; ; c.parts *= 2 {
		c.all, c.seed = newGroups(c.o), maphash.MakeSeed()
		var space dbfile.Space
		var buckets []dbfile.BucketSize
		err := error(nil)
		for c.part = 0; c.part < c.parts && err == nil; c.part++ {
			space, buckets, err = c.pass(ctx)
		}
		if !errors.Is(err, errTableFull) {
			return space, buckets, err
		}
	}
}

// pass counts a part of the keys.
func (c *fileCount) pass(ctx context.Context) (dbfile.Space, []dbfile.BucketSize, error) {
	n := min(runtime.GOMAXPROCS(0), maxWorkers)
	if c.o.byRecord() {
		n = 1 // the group of a deletion is that of the record before, which another one may have read
	}
	counters := make([]*counter, n)
	for i := range counters {
		k := &counter{fileCount: c, worker: uint64(i), groups: newGroups(c.o)}
		k.log = newKeyLog(2*c.s.o.Memory/int64(n), k.older) // no sorter is at work beside it
		counters[i] = k
	}
	space, buckets, err := c.s.db.Survey(ctx, n, func(worker int, r *dbfile.Record) error { return counters[worker].add(r) })
	if err != nil {
		return space, nil, err
	}
	settle(counters)
	for _, k := range counters {
		c.all.merge(k.groups)
	}
	return space, buckets, nil
}

// add takes a record.
func (c *counter) add(r *dbfile.Record) error {
	if r.Index%tellEvery == tellEvery-1 {
		c.s.o.Sink.Event(progress.Event{Op: c.s.o.Op, Subject: c.s.path, Phase: "reading revisions", Done: c.done.Add(tellEvery), Unit: "revisions"})
	}
	hash := hashOf(c.seed, r.Key)
	if hash%c.parts != c.part || !c.q.contains(r.Key) {
		return nil
	}
	if len(r.Key) == 0 { // no key, but what a restore leaves that raises the revision
		c.groups.root().pass(false, r.Size())
		return nil
	}
	return c.log.add(hash, r, r.Size(), c.group(r))
}

// sameGroup stands for the group of the key's record before.
const sameGroup = math.MaxUint64

// group returns the group of a record, with the counter that has it. A deletion tells
// neither lease nor value: it is counted where what it deleted is.
func (c *counter) group(r *dbfile.Record) uint64 {
	if r.Tombstone && c.o.byRecord() {
		return sameGroup
	}
	return c.worker<<32 | uint64(c.groups.of(r.Key, r.Lease, r.Value).index)
}

// older counts a record of this counter's that is not the state of its key.
func (c *counter) older(old, newer *keyRecord) {
	if newer.mark == sameGroup {
		newer.mark = old.mark
	}
	n := &c.since
	if old.mark != sameGroup {
		n = c.groups.list[uint32(old.mark)]
	}
	n.pass(old.tombstone(), int64(old.size))
}

// pass counts a record that is not the state of its key, be it an older one or a
// deletion.
func (n *node) pass(tombstone bool, size int64) {
	if tombstone {
		n.tombstones++
		n.deleted += size
		return
	}
	n.revisions++
	n.history += size
}

// settled is what one of several workers counts of the records of all counters.
type settled struct {
	groups [][]node // by counter, and as its groups are
	since  node
}

func (s *settled) node(mark uint64) *node {
	if mark == sameGroup {
		return &s.since
	}
	return &s.groups[mark>>32][uint32(mark)]
}

func (s *settled) older(old, newer *keyRecord) {
	if newer.mark == sameGroup {
		newer.mark = old.mark
	}
	s.node(old.mark).pass(old.tombstone(), int64(old.size))
}

// latest counts the latest record of a key.
func (s *settled) latest(r *keyRecord) {
	n := s.node(r.mark)
	if r.tombstone() {
		n.pass(true, int64(r.size))
	} else {
		n.keys++
		n.live += int64(r.size)
		n.largest.offer(candidate{n: int64(r.size), at: r.place(), size: int64(r.size)})
	}
	if r.count > 1 {
		n.mostRevised.offer(candidate{n: int64(r.count), at: r.place(), size: int64(r.size)})
	}
}

// settle counts what the counters have kept: of each key the latest record, of which
// several may have one; the later counters have the newer records.
func settle(counters []*counter) {
	logs, folders, all := make([]*keyLog, len(counters)), make([]*keyFolder, len(counters)), make([]settled, len(counters))
	for i, c := range counters {
		logs[i] = c.log
		for _, k := range counters {
			all[i].groups = append(all[i].groups, make([]node, len(k.groups.list)))
		}
		folders[i] = &keyFolder{older: all[i].older}
	}
	foldLogs(logs, folders, func(worker int, s *keyShare) {
		for i := range s.n {
			all[worker].latest(s.at(i))
		}
	})
	for w := range all {
		for i, c := range counters {
			for j := range all[w].groups[i] {
				c.groups.list[j].add(&all[w].groups[i][j])
			}
		}
		counters[0].since.add(&all[w].since)
	}
	for _, c := range counters {
		if c.since.tombstones > 0 {
			c.groups.flat(string(GroupDeletedSince)).add(&c.since)
		}
	}
}

// name reads the keys that are to be named.
func (c *fileCount) name() error {
	for _, n := range c.all.list {
		for _, k := range []*candidate{&n.largest, &n.mostRevised} {
			if k.n == 0 {
				continue
			}
			key, err := c.s.db.KeyAt(k.at, k.size)
			if err != nil {
				return err
			}
			k.key = string(key)
		}
	}
	return nil
}
