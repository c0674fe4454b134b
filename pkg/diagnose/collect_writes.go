package diagnose

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
)

const (
	writesBytes = 16 << 20 // bounds what is read of the latest writes
	fewRevs     = 20       // revisions that tell how many changes one has, and how large they are
)

// writes reads the latest revisions by a watch from the past, as every watcher that
// reconnects does: as many as have CollectOptions.Revisions changes in them. A few are
// read first, which say how many that will be. Where a revision has many changes, all of
// them would cost the member dearly: to cut an answer into messages that are not too
// large, etcd adds up all that is in a message anew for each change that it puts in
// (sendFragments in server/etcdserver/api/v3rpc/watch.go).
func (c *collector) writes(ctx context.Context, m cluster.Member, mc *cluster.MemberClient) {
	if c.o.Revisions <= 0 || c.in.Keys == nil {
		return
	}
	oldest, head := c.in.Keys.Oldest+1, c.in.Keys.Revision
	if oldest > head {
		c.in.Writes = &Writes{Member: name(m), From: head, To: head - 1}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.Config().CommandTimeout)
	defer cancel()
	if err := mc.Connect(ctx); err != nil {
		c.missErr(NeedWrites, name(m), err)
		return
	}
	want := min(c.o.Revisions, fewRevs, head-oldest+1)
	for range 2 {
		w, changes, err := c.latest(ctx, mc, head-want+1, head)
		if err != nil {
			if c.in.Writes == nil {
				c.missErr(NeedWrites, name(m), err)
			}
			return
		}
		w.Member = name(m)
		c.in.Writes = w
		read := want
		want = min(c.o.Revisions, read*c.o.Revisions/max(1, changes), read*writesBytes/max(1, w.Bytes), head-oldest+1)
		if want <= read || w.To < head {
			return
		}
	}
}

// latest counts who wrote the revisions from one to the head, and how many changes
// they have.
func (c *collector) latest(ctx context.Context, mc *cluster.MemberClient, from, head int64) (*Writes, int64, error) {
	c.asked("watch of the latest revisions", 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := &Writes{From: from, To: head}
	top, groups, changes := newTop(), newGroupTally(c.in.Keys), int64(0)
	for resp := range mc.Etcd().Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(from), clientv3.WithFragment()) {
		if err := resp.Err(); err != nil {
			return nil, 0, mc.Explain(ctx, "watch", err)
		}
		for _, e := range resp.Events {
			if e.Kv.ModRevision > head {
				break
			}
			size := int64(len(e.Kv.Key) + len(e.Kv.Value))
			top.add(e.Kv.Key, size)
			groups.add(e.Kv.Key, size)
			w.Bytes += size
			w.To = e.Kv.ModRevision
			changes++
		}
		if n := len(resp.Events); n > 0 && resp.Events[n-1].Kv.ModRevision >= head || w.Bytes > writesBytes {
			top.fill(w)
			groups.fill(w)
			return w, changes, nil
		}
	}
	return nil, 0, fmt.Errorf("the latest %s did not come within %s", counted(head-from+1, "revision"), c.client.Config().CommandTimeout.Round(time.Second))
}
