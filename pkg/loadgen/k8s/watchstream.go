package k8s

import (
	"context"
	"math"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// watchStream is one gRPC stream with the watches on it. It is read by hand and
// not through etcd's client, which takes in all that comes and keeps it for a slow
// reader: then nothing would wait at the server.
type watchStream struct {
	env       *loadgen.Env
	client    *clientv3.Client
	commits   *commitTimes
	followers []*follower
	prevKV    bool
	progress  bool
	reconnect time.Duration
}

// run keeps the stream up until ctx ends. What has not come until then is counted
// as unfinished: how late events are shows of those that came, and a stream that
// stands still brings none.
func (s *watchStream) run(ctx context.Context) error {
	defer func() {
		for _, f := range s.followers {
			f.missed(s.commits, time.Now())
		}
	}()
	for ctx.Err() == nil {
		if !s.once(ctx) && ctx.Err() == nil {
			s.env.Count("watches_ended", 1)
			pause(ctx, time.Second)
		}
	}
	return nil
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
		if f.next == 0 && !f.list(ctx, s.client) {
			return ctx.Err() != nil
		}
		if stream.Send(shape.WatchRequest(f.prefix, f.next, s.prevKV, s.progress)) != nil {
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
				f.next = 0
				s.env.Count("watches_compacted", 1)
			}
			return false
		case r.Created: // in the order in which they were asked for
			byID[r.WatchId] = s.followers[len(byID)]
		case f == nil: // progress of the whole stream
		default:
			f.received(r, now, s.commits)
			f.digest(ctx, r)
		}
	}
}

// follower is one informer: what it follows, and how far it is.
type follower struct {
	env    *loadgen.Env
	prefix string
	label  string // as what its events are counted
	shard  int    // whose events it follows: of a namespace, or everywhere
	rate   int64  // bytes a second that it reads, 0: as they come

	next     int64            // revision to go on from, 0: from a list
	last     int64            // of the last event
	versions map[string]int64 // of each key, as last seen
}

// list begins with what there is now. It reads no values: the list itself is
// k8s-relist's.
func (f *follower) list(ctx context.Context, c *clientv3.Client) bool {
	now, err := shape.Probe(f.prefix[:len(f.prefix)-1]).Send(ctx, c)
	if err != nil {
		return false
	}
	f.next, f.last, f.versions = now.Header.Revision+1, 0, map[string]int64{}
	return true
}

// received takes the events of a message: each key's versions must come one after
// the other, and revisions never go back.
func (f *follower) received(r *pb.WatchResponse, now time.Time, commits *commitTimes) {
	if len(r.Events) == 0 { // progress: there is nothing up to here that has not been seen
		f.next = max(f.next, r.Header.Revision+1)
	}
	for _, e := range r.Events { // more may be on the way, whatever the header says
		f.next = max(f.next, e.Kv.ModRevision+1)
		kv := e.Kv
		committed, known := commits.of(kv.ModRevision)
		if !known {
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

// everywhere is the shard of those that follow all namespaces.
const everywhere = -1

// underWay is how long an event may be on its way at the end of a run without
// being counted as one that did not come.
const underWay = time.Second

// missed counts the events that had not come at the end.
func (f *follower) missed(commits *commitTimes, now time.Time) {
	for _, at := range commits.after(max(f.next-1, f.last), f.shard) {
		if now.Sub(at) > underWay {
			f.env.Observe("watch_event", f.label, result.Unfinished, at, 0)
		}
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
	pause(ctx, time.Duration(float64(n)/float64(f.rate)*float64(time.Second)))
}

func sizeOf(e *mvccpb.Event) int64 { return eventBytes([]*clientv3.Event{(*clientv3.Event)(e)}) }

// remembered is how many writes' times are kept.
const remembered = 1 << 16

// commitTimes remembers when the last writes were answered. It is safe for
// concurrent use.
type commitTimes struct {
	mu     sync.Mutex
	newest int64
	times  [remembered]struct {
		revision int64
		shard    int
		at       time.Time
	}
}

func (c *commitTimes) at(revision int64, shard int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = max(c.newest, revision)
	slot := &c.times[revision%remembered]
	slot.revision, slot.shard, slot.at = revision, shard, now
}

// after returns when the writes after a revision were answered, those of one shard
// or of all.
func (c *commitTimes) after(revision int64, shard int) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []time.Time
	for r := max(revision+1, c.newest-remembered+1); r <= c.newest; r++ {
		if slot := c.times[r%remembered]; slot.revision == r && (shard == everywhere || shard == slot.shard) {
			out = append(out, slot.at)
		}
	}
	return out
}

// of returns when a write was answered: zero for one that has not been yet. It
// does not know those that were too long ago.
func (c *commitTimes) of(revision int64) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := c.times[revision%remembered]
	if slot.revision == revision {
		return slot.at, true
	}
	return time.Time{}, revision > c.newest-remembered
}
