package drill

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
)

// informer is a client as Kubernetes has them: it lists once, then watches from
// there, and knows the revision of the last thing it heard.
type informer struct {
	revision int64
	events   int64 // heard
}

// adopt takes a list.
func (i *informer) adopt(p picture) { i.revision = max(i.revision, p.revision) }

// fromHere are the options of an informer's watch.
func fromHere(rev int64) []clientv3.OpOption {
	return []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithRev(rev)}
}

// listen hears events until one is of a revision, for watchSpeaks at most. Its
// errors are etcd's.
func (i *informer) listen(ctx context.Context, heard clientv3.WatchChan, until int64) error {
	ctx, enough := context.WithTimeout(ctx, watchSpeaks)
	defer enough()
	for i.revision < until {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case resp, open := <-heard:
			if err := resp.Err(); err != nil || !open {
				return errors.Join(err, errors.New("the watch ended"))
			}
			for _, e := range resp.Events {
				i.events++
				i.revision = max(i.revision, e.Kv.ModRevision)
			}
		}
	}
	return nil
}

// How long a watch is waited for: one of which nothing is expected, once another
// on the same connection has heard everything, and one that has to say something.
const (
	watchQuiet  = 300 * time.Millisecond
	watchSpeaks = 20 * time.Second
)

// watchThrough is the index of the member that the informer talks to.
const watchThrough = 0

// renewed is what came of a watch that was opened again and of the writes under it.
type renewed struct {
	watch  RestoreWatch
	writes []Attempt
}

// rewatch opens the informer's watch again where it left off, beside one that
// begins now; renews a node's Lease through each member; and hears what comes. Both
// watches are on one connection, where what was sent before comes before: when the
// one that began now has heard the last write, the other one has heard what it is
// going to hear of them.
func (s *restoring) rewatch(ctx context.Context, members []*cluster.MemberClient, from int64, speaks bool) (renewed, error) {
	m := members[watchThrough]
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	out := renewed{watch: RestoreWatch{Through: s.cluster.Name(watchThrough), FromRevision: from}}
	old := m.Etcd().Watch(ctx, registryPrefix, fromHere(from)...)
	fresh := m.Etcd().Watch(ctx, registryPrefix, clientv3.WithPrefix())
	out.writes = s.renewals(ctx, members)
	if missing := writtenMissing(out.writes); len(missing) > 0 {
		return out, &verdict{outcome: NotRemedied, missing: missing}
	}
	last := out.writes[len(out.writes)-1].Revision
	now := informer{}
	if err := now.listen(ctx, fresh, last); err != nil {
		return out, m.Explain(ctx, "watch", err)
	}
	out.watch.FreshEvents = now.events
	patience := watchQuiet
	if speaks {
		patience = watchSpeaks
	}
	waiting, enough := context.WithTimeout(ctx, patience)
	defer enough()
	began := time.Now()
	out.watch.hear(waiting, old, last)
	out.watch.WaitedSeconds = time.Since(began).Seconds()
	return out, nil
}

// hear notes what a watch says until it ends, ctx does, or it is at a revision.
func (w *RestoreWatch) hear(ctx context.Context, heard clientv3.WatchChan, until int64) {
	for {
		select {
		case <-ctx.Done():
			return
		case resp, open := <-heard:
			if err := resp.Err(); err != nil || !open {
				w.CompactRevision = resp.CompactRevision
				if err != nil {
					w.Error = err.Error()
				}
				w.Compacted = errors.Is(err, rpctypes.ErrCompacted)
				return
			}
			w.Events += int64(len(resp.Events))
			if n := len(resp.Events); n > 0 && resp.Events[n-1].Kv.ModRevision >= until {
				return
			}
		}
	}
}

// renewals renews one node's Lease through each member. It is an unconditional put,
// since what the kubelet knows of its Lease may be ahead of the cluster.
func (s *restoring) renewals(ctx context.Context, members []*cluster.MemberClient) []Attempt {
	var out []Attempt
	leases := s.load.leases()
	for i, m := range members {
		o := leases[i%len(leases)]
		began := time.Now()
		put, cancel := context.WithTimeout(ctx, cluster.DefaultCommandTimeout)
		resp, err := m.Etcd().Put(put, o.key, o.valueAt(time.Now()))
		cancel()
		a := Attempt{Member: s.cluster.Name(i), Endpoint: m.Endpoint(), Key: o.key, TookSeconds: time.Since(began).Seconds()}
		if err != nil {
			a.Error = err.Error()
		} else {
			a.Revision = resp.Header.Revision
		}
		out = append(out, a)
	}
	return out
}
