package k8s

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
	"kvd/pkg/ops/wait"
)

// watchStream is one gRPC stream with the watches on it. It is read by hand and
// not through etcd's client, which takes in all that comes and keeps it for a slow
// reader: then nothing would wait at the server.
type watchStream struct {
	env       *loadgen.Env
	client    *clientv3.Client
	written   *written
	followers []*follower
	prevKV    bool
	progress  bool
	reconnect time.Duration
}

// run keeps the stream up until ctx ends. What has not come by then never does.
func (s *watchStream) run(ctx context.Context) error {
	defer func() {
		for _, f := range s.followers {
			f.giveUp(s.written, math.MaxInt64)
		}
	}()
	for ctx.Err() == nil {
		if !s.once(ctx) && ctx.Err() == nil {
			s.env.Count("watches_ended", 1)
			_ = wait.For(ctx, time.Second)
		}
	}
	return nil
}

// behind reports that one of the followers waits for an event.
func (s *watchStream) behind() bool {
	return slices.ContainsFunc(s.followers, func(f *follower) bool { return s.written.last(f.shard) >= f.next.Load() })
}

// once begins the stream and reads it to its end, and reports whether that was by
// intent. Followers go on where they were.
func (s *watchStream) once(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(shape.WithLeader(ctx))
	defer cancel()
	if s.reconnect > 0 {
		defer time.AfterFunc(s.reconnect, cancel).Stop()
	}
	stream, err := pb.NewWatchClient(s.client.ActiveConnection()).Watch(ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return ctx.Err() != nil
	}
	for _, f := range s.followers {
		if !f.listed && !f.list(ctx, s.client, s.written) {
			return ctx.Err() != nil
		}
		if stream.Send(shape.WatchRequest(f.prefix, f.next.Load(), s.prevKV, s.progress)) != nil {
			return ctx.Err() != nil
		}
	}
	byID := map[int64]*follower{}
	for {
		r, err := stream.Recv()
		if err != nil {
			return ctx.Err() != nil
		}
		now := time.Now()
		f := byID[r.WatchId]
		switch {
		case r.Canceled:
			if f != nil && r.CompactRevision != 0 {
				f.listed = false
				s.env.Count("watches_compacted", 1)
			}
			return false
		case r.Created: // in the order in which they were asked for
			byID[r.WatchId] = s.followers[len(byID)]
		case f == nil: // progress of the whole stream
		default:
			f.received(r, now, s.written)
			f.digest(ctx, r)
		}
	}
}

// follower is one informer: what it follows, and how far it is.
type follower struct {
	env    *loadgen.Env
	prefix string
	shard  int    // whose pods it follows
	label  string // as what its events are counted
	rate   int64  // bytes a second that it reads, 0: as they come

	listed   bool             // goes on from next, and not from a list
	next     atomic.Int64     // revision to go on from, 0: there was no list yet
	last     int64            // of the last event
	versions map[string]int64 // of each key, as last seen
}

// list begins with what there is now. It reads no values: the list itself is
// k8s-relist's. Where a compaction took events that were due, they never come.
func (f *follower) list(ctx context.Context, c *clientv3.Client, w *written) bool {
	now, err := shape.Probe(f.prefix[:len(f.prefix)-1]).Send(ctx, c)
	if err != nil {
		return false
	}
	if f.next.Load() > 0 {
		f.giveUp(w, now.Header.Revision)
	}
	f.listed, f.last, f.versions = true, 0, map[string]int64{}
	f.next.Store(now.Header.Revision + 1)
	return true
}

// giveUp counts the events that were due up to a revision and have not come: each has
// taken until now at least, and those that came are not all that were waited for.
func (f *follower) giveUp(w *written, upTo int64) {
	w.each(f.shard, f.next.Load(), upTo, f.never)
}

// never counts an event that does not come, or not in time to be remembered.
func (f *follower) never(committed time.Time) {
	f.env.Observe("watch_event", f.label, result.Unfinished, committed, 0)
}

// reached notes up to where all has come.
func (f *follower) reached(revision int64) { f.next.Store(max(f.next.Load(), revision+1)) }

// received takes the events of a message: each key's versions must come one after
// the other, and revisions never go back.
func (f *follower) received(r *pb.WatchResponse, now time.Time, w *written) {
	if len(r.Events) == 0 { // progress: there is nothing up to here that has not been seen
		f.reached(r.Header.Revision)
	}
	for _, e := range r.Events { // more may be on the way, whatever the header says
		kv := e.Kv
		f.reached(kv.ModRevision)
		committed, known := w.at(kv.ModRevision)
		if !known { // counted as unfinished when it was forgotten
			f.env.Count("events_too_old", 1)
		} else {
			if committed.IsZero() || committed.After(now) { // it came before the writer's own answer
				committed = now
			}
			f.env.Observe("watch_event", f.label, result.OK, committed, sizeOf(e))
		}
		f.check(kv)
	}
}

// check counts what is missing, twice there or out of order.
func (f *follower) check(kv *mvccpb.KeyValue) {
	if kv.ModRevision < f.last {
		f.env.Count("unordered_events", 1)
	}
	f.last = max(f.last, kv.ModRevision)
	key := string(kv.Key)
	switch seen := f.versions[key]; {
	case seen == 0 || kv.Version == 1: // the first one since the list
	case kv.Version <= seen:
		f.env.Count("duplicate_events", 1)
	case kv.Version > seen+1:
		f.env.Count("missing_events", kv.Version-seen-1)
	}
	f.versions[key] = max(f.versions[key], kv.Version)
}

// digest is what a slow reader needs for a message. Those who share its stream
// wait with it.
func (f *follower) digest(ctx context.Context, r *pb.WatchResponse) {
	if f.rate == 0 {
		return
	}
	n := int64(0)
	for _, e := range r.Events {
		n += sizeOf(e)
	}
	_ = wait.For(ctx, time.Duration(float64(n)/float64(f.rate)*float64(time.Second)))
}

func sizeOf(e *mvccpb.Event) int64 { return eventBytes([]*clientv3.Event{(*clientv3.Event)(e)}) }
