package keyspace

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// progressEvery is how often a watch is asked how far it has come.
const progressEvery = 300 * time.Millisecond

// Changes reads the state at the oldest revision, and then everything since by a
// watch from there on, for which the member reads all of its history; with
// Query.After only what a watch from there on sends. Both are sorted on this side,
// in memory as far as that suffices. A member that does not
// tell how far a watch has come (etcd before 3.4.31 and 3.5.13) sends the changes
// of all keys, of which those of the range are taken.
//
// Change.Sub is the place among the changes of the range in its revision.
func (s *LiveSource) Changes(ctx context.Context, q Query, fn func(*Change) error) error {
	b, err := s.Bounds(ctx)
	if err != nil {
		return err
	}
	rev, err := b.Revision(s.Name(), q.Rev)
	if err != nil {
		return err
	}
	since := max(b.Oldest, q.After)
	if cost, err := s.Cost(ctx, q); err == nil {
		s.o.Sink.Event(progress.Event{Op: s.o.Op, Subject: s.Name(), Warning: true, Note: fmt.Sprintf(
			"history is read by a watch from revision %d to %d: the member reads up to %d bytes of its file for that", since, rev, cost.Bytes)})
	}
	all := newSorter(s.o.Memory, 0, s.o.SpoolDir)
	defer all.close() //nolint:errcheck // a file without a name
	if err := s.collect(ctx, q, b.Oldest, since, rev, all); err != nil {
		if fault.CauseOf(err) == cluster.CauseCompacted {
			return &fault.Error{Kind: fault.Refused, Cause: cluster.CauseCompacted, Op: "read", Subject: s.Name(), Err: err,
				Msg: fmt.Sprintf("revision %d, where history began, was compacted meanwhile", since), Hint: "try again"}
		}
		return err
	}
	var c Change
	return merged([]*sorter{all}, func(key, body []byte) error {
		c = parseChange(key, body)
		return fn(&c)
	})
}

// collect puts the changes of the range after since into a sorter, in the order they
// happened, and before them, where nothing was left out, the state at the oldest.
func (s *LiveSource) collect(ctx context.Context, q Query, oldest, since, rev int64, to *sorter) error {
	if q.After < oldest {
		base := q
		base.Rev = oldest
		err := s.Keys(ctx, base, func(it *Item) error {
			if it.ModRevision <= q.After {
				return nil
			}
			return to.add(it.Key, appendChange(nil, &Change{Item: *it}))
		})
		if err != nil {
			return err
		}
	}
	if rev <= since {
		return nil
	}
	st, err := s.m.Status(ctx)
	if err != nil {
		return err
	}
	w := watched{s: s, q: q, rev: rev, to: to, asks: tellsProgress(st.Version)}
	return w.run(ctx, since+1)
}

// tellsProgress reports whether a server of this version answers a request for
// progress, and not before it has sent all events up to there (etcd issues 15220
// and 17507).
func tellsProgress(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	switch {
	case v.Major == 3 && v.Minor == 4:
		return v.Patch >= 31
	case v.Major == 3 && v.Minor == 5:
		return v.Patch >= 13
	}
	return v.Major > 3 || v.Minor > 5
}

// watched takes the changes of a range from a watch.
type watched struct {
	s    *LiveSource
	q    Query
	rev  int64 // the last one
	to   *sorter
	asks bool

	at       int64 // up to where changes of any key came
	rec, sub int64 // of the latest change that was taken
	count    int64
}

func (w *watched) run(ctx context.Context, from int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key, end := Query{}.live()
	if w.asks {
		key, end = w.q.live()
	}
	stream, err := w.s.m.Watch(ctx, &pb.WatchCreateRequest{Key: []byte(key), RangeEnd: []byte(end), StartRevision: from})
	if err != nil {
		return err
	}
	answers := make(chan watchAnswer)
	go receive(ctx, stream, answers)
	ask := time.NewTicker(progressEvery)
	defer ask.Stop()
	last := time.Now()
	for {
		select {
		case a := <-answers:
			if a.err != nil {
				return a.err
			}
			if done, err := w.take(a.resp); err != nil || done {
				return err
			}
			last = time.Now()
		case <-ask.C:
			if time.Since(last) > max(w.s.o.Timeout, 4*progressEvery) {
				return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseDeadline, Op: "read history", Subject: w.s.Name(),
					Msg: "the member stopped sending for " + w.s.o.Timeout.String(), Hint: "try again, or raise --command-timeout"}
			}
			if !w.asks {
				continue
			}
			if err := stream.RequestProgress(); err != nil {
				return err
			}
		case <-ctx.Done(): // receive may have seen it first, and hand over nothing
			return w.s.m.Explain(ctx, "read history", ctx.Err())
		}
	}
}

// watchAnswer is a message of a watch, or how it ended.
type watchAnswer struct {
	resp *pb.WatchResponse
	err  error
}

// receive hands over one message after the other, and waits with the next one until
// it is taken.
func receive(ctx context.Context, from *cluster.WatchStream, to chan<- watchAnswer) {
	for {
		resp, err := from.Recv()
		select {
		case to <- watchAnswer{resp, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// take is true when everything up to the last revision has come.
func (w *watched) take(resp *pb.WatchResponse) (bool, error) {
	for _, ev := range resp.Events {
		if w.at = ev.Kv.ModRevision; w.at > w.rev {
			return true, nil
		}
		if err := w.keep(ev); err != nil {
			return false, err
		}
	}
	w.s.o.Sink.Event(progress.Event{Op: w.s.o.Op, Subject: w.s.Name(), Phase: "reading history", Done: w.count, Unit: "revisions"})
	if w.asks {
		return !resp.Created && len(resp.Events) == 0 && resp.Header.Revision >= w.rev, nil
	}
	return w.at >= w.rev && !resp.Fragment, nil
}

func (w *watched) keep(ev *mvccpb.Event) error {
	if !w.q.contains(ev.Kv.Key) {
		return nil
	}
	if w.sub++; ev.Kv.ModRevision != w.rec {
		w.rec, w.sub = ev.Kv.ModRevision, 0
	}
	c := Change{Item: itemOf(ev.Kv, ev.Kv.ModRevision), Sub: w.sub}
	if w.q.KeysOnly {
		c.Value = nil
	}
	if ev.Type == mvccpb.Event_DELETE {
		c.Tombstone, c.Size = true, tombstoneSize(ev.Kv.Key)
	}
	w.count++
	return w.to.add(ev.Kv.Key, appendChange(nil, &c))
}
