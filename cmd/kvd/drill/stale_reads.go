package drill

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/progress"
)

// staleQuantiles are the latencies that are told, in percent.
var staleQuantiles = [...]float64{50, 90, 99, 100}

// get is one read, linearizable unless opts say otherwise.
func (s *stale) get(ctx context.Context, m *cluster.MemberClient, timeout time.Duration, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return m.Etcd().Get(ctx, staleKey, opts...)
}

// read reads through the follower and through the leader, one read after the
// other. Linearizable reads through the follower are left out while it is cut
// off: each would take its whole timeout.
func (s *stale) read(ctx context.Context, phase string) (StaleReads, error) {
	s.sink.Event(progress.Event{Op: "drill", Phase: phase})
	out := StaleReads{Head: s.r.HeadRevision}
	cutOff := !s.cutAt.IsZero() && s.r.CaughtUpSeconds == 0
	if !cutOff {
		// Also a healthy follower applies a write a moment after its leader has
		// acknowledged it; a linearizable read waits for that.
		if _, err := s.get(ctx, s.follower, cluster.DefaultCommandTimeout); err != nil {
			return out, s.follower.Explain(ctx, "get", err)
		}
	}
	for _, k := range []struct {
		m    *cluster.MemberClient
		name string
		kind string
		skip bool
	}{
		{s.follower, s.r.Follower, ReadSerializable, false},
		{s.follower, s.r.Follower, ReadLinearizable, cutOff},
		{s.leader, s.r.Leader, ReadSerializable, false},
		{s.leader, s.r.Leader, ReadLinearizable, false},
	} {
		if k.skip {
			continue
		}
		reads, err := s.series(ctx, k.m, k.name, k.kind)
		if err != nil {
			return out, err
		}
		out.Reads = append(out.Reads, reads)
	}
	return out, nil
}

// series makes the reads of one kind through one member.
func (s *stale) series(ctx context.Context, m *cluster.MemberClient, name, kind string) (ReadKinds, error) {
	var opts []clientv3.OpOption
	if kind == ReadSerializable {
		opts = append(opts, clientv3.WithSerializable())
	}
	out := ReadKinds{Through: name, Kind: kind}
	var took []time.Duration
	for range s.o.Reads {
		began := time.Now()
		resp, err := s.get(ctx, m, s.o.Timeout, opts...)
		took = append(took, time.Since(began))
		out.Reads++
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case err != nil:
			if out.Failed++; out.Error == "" {
				out.Error = err.Error()
			}
			continue
		case len(resp.Kvs) == 1 && string(resp.Kvs[0].Value) == staleValue(s.version):
			out.Fresh++
		default:
			out.Old++
		}
		if out.Revision == 0 || resp.Header.Revision < out.Revision {
			out.Revision = resp.Header.Revision
		}
	}
	out.Behind = max(0, s.r.HeadRevision-out.Revision)
	out.Latencies = quantiles(took)
	return out, nil
}

// quantiles sorts what reads took.
func quantiles(took []time.Duration) []Quantile {
	slices.Sort(took)
	var out []Quantile
	for _, q := range staleQuantiles {
		i := int(math.Ceil(q/100*float64(len(took)))) - 1
		out = append(out, Quantile{q, took[max(0, i)].Seconds()})
	}
	return out
}

// refused makes one read through the follower that it must not answer. asking is
// ctx, with what the read asks for. It is made once: etcd's client would try
// again where no leader is known.
func (s *stale) refused(ctx context.Context, kind, asked string, asking context.Context) {
	asking, cancel := context.WithTimeout(asking, s.o.Timeout)
	defer cancel()
	began := time.Now()
	resp, err := etcdserverpb.NewKVClient(s.follower.Etcd().ActiveConnection()).
		Range(asking, &etcdserverpb.RangeRequest{Key: []byte(staleKey), Serializable: kind == ReadSerializable})
	if ctx.Err() != nil {
		return
	}
	r := RefusedRead{Kind: kind, Asked: asked, Answered: err == nil, TookSeconds: time.Since(began).Seconds()}
	switch {
	case err == nil:
		r.Revision = resp.Header.Revision
	case cluster.Classify("get", s.r.Follower, err).Cause == cluster.CauseDeadline:
		// The client's own deadline, of which gRPC may know before its context does.
		r.Error = "no answer: " + context.DeadlineExceeded.Error()
	default:
		r.Error = rpctypes.Error(err).Error()
	}
	s.r.Refused = append(s.r.Refused, r)
}

// freshMissing lists the reads that did not have the last write.
func (s *stale) freshMissing(reads StaleReads) []string {
	var out []string
	for _, k := range reads.Reads {
		if k.Fresh != k.Reads {
			out = append(out, fmt.Sprintf("%d of %d %s reads through %s were old, %d failed", k.Old, k.Reads, k.Kind, k.Through, k.Failed))
		}
	}
	return out
}

// duringMissing is the verdict on what was read while the follower was cut off.
func (s *stale) duringMissing() error {
	var shown, broken []string
	for _, k := range s.r.During.Reads {
		switch {
		case k.Through != s.r.Follower && k.Fresh != k.Reads:
			broken = append(broken, fmt.Sprintf("%d of %d %s reads through %s, which leads, were old, %d failed", k.Old, k.Reads, k.Kind, k.Through, k.Failed))
		case k.Through == s.r.Follower && k.Old != k.Reads:
			shown = append(shown, fmt.Sprintf("%d of %d serializable reads through %s, cut off, were not old: %d fresh, %d failed", k.Reads-k.Old, k.Reads, k.Through, k.Fresh, k.Failed))
		case k.Through == s.r.Follower && k.Revision != s.r.CutRevision:
			shown = append(shown, fmt.Sprintf("%s served revision %d, it was cut off at %d", k.Through, k.Revision, s.r.CutRevision))
		}
	}
	for _, r := range s.r.Refused {
		if r.Answered {
			broken = append(broken, fmt.Sprintf("%s, cut off, answered a %s read (%s) at revision %d", s.r.Follower, r.Kind, r.Asked, r.Revision))
		}
	}
	if len(broken) > 0 {
		return wholly(NotProved, broken, shown)
	}
	return wholly(NotReproduced, shown)
}
