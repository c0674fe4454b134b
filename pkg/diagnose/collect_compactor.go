package diagnose

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/keys"
)

const (
	// clockLeases is about how many Leases are read as clocks: of some nobody renews any more.
	clockLeases = 40
	// clockClusters is of how many clusters in one etcd.
	clockClusters = 4
	// clockSlack is how far behind the latest a Lease may be that somebody renews: holders
	// of one do so every few seconds, or every few minutes where somebody has set that.
	clockSlack = 10 * time.Minute
)

// compactor looks at the marker that kube-apiserver leaves when it compacts, and at how
// old that is. A revision has no time; but Leases are renewed every few seconds, with
// the time in them, and etcd shows what one was at an older revision.
func (c *collector) compactor(ctx context.Context, mc *cluster.MemberClient) {
	source := "serializable range from " + mc.Label()
	r, err := mc.Get(ctx, keys.CompactRevKey)
	c.asked(source, 1)
	if err != nil {
		c.missErr(NeedCompactor, mc.Label(), err)
		return
	}
	prefixes := c.leasePrefixes()
	out := Compactor{Key: keys.CompactRevKey, Head: c.in.Keys.Revision, Source: "Leases and " + keys.CompactRevKey + " of " + mc.Label()}
	if len(r.Kvs) == 1 {
		out.ModRevision = r.Kvs[0].ModRevision
		out.Compacts, _ = strconv.ParseInt(string(r.Kvs[0].Value), 10, 64) //nolint:errcheck // 0 is none
	} else if len(prefixes) == 0 {
		return // not Kubernetes'
	}
	c.in.Compactor = &out
	defer func() {
		if out.Kept == 0 {
			c.leftOut(NeedCompactor, "no Lease is renewed that would tell how old a revision is", "")
		}
	}()
	leases, now := c.renewed(ctx, mc, c.someOf(ctx, mc, prefixes, out.Head), out.Head)
	if len(leases) == 0 {
		return // there is no clock
	}
	first := leases[0].CreateRevision
	for _, kv := range leases {
		first = min(first, kv.CreateRevision)
	}
	at := func(rev int64) time.Time {
		latest, _ := c.clock(ctx, mc, leases, rev)
		return latest
	}
	oldest := max(c.in.Keys.Oldest, first)
	out.Kept = since(now, at(oldest))
	switch {
	case out.ModRevision < first: // never written, or before all that tells the time: at least that long ago
		out.Age = out.Kept
	default:
		out.Age = since(now, at(max(out.ModRevision, oldest)))
	}
}

// leasePrefixes are where to look for Leases that are renewed: those of nodes and of the
// cluster's own parts first. In other namespaces there may be some of what is long gone.
func (c *collector) leasePrefixes() []string {
	var groups, out []string
	for _, g := range c.in.Keys.Groups {
		if strings.HasPrefix(g.Resource, "leases") && strings.HasSuffix(string(g.Prefix), "/leases/") && len(groups) < clockClusters {
			groups = append(groups, string(g.Prefix))
		}
	}
	for _, below := range []string{"kube-system/", "kube-node-lease/", ""} {
		for _, g := range groups {
			out = append(out, g+below)
		}
	}
	return out
}

// someOf reads some keys below each prefix until there are enough.
func (c *collector) someOf(ctx context.Context, mc *cluster.MemberClient, prefixes []string, rev int64) []*mvccpb.KeyValue {
	var out []*mvccpb.KeyValue
	for _, p := range prefixes {
		if len(out) >= clockLeases {
			break
		}
		r, err := mc.Get(ctx, p, clientv3.WithPrefix(), clientv3.WithLimit(clockLeases/2), clientv3.WithSerializable(), clientv3.WithKeysOnly(), clientv3.WithRev(rev))
		c.asked("serializable range from "+mc.Label(), 1)
		if err != nil {
			return nil
		}
		for _, kv := range r.Kvs {
			if !slices.ContainsFunc(out, func(have *mvccpb.KeyValue) bool { return string(have.Key) == string(kv.Key) }) {
				out = append(out, kv)
			}
		}
	}
	return out
}

// renewed are those of the Leases that somebody still renews, and when the latest was.
func (c *collector) renewed(ctx context.Context, mc *cluster.MemberClient, of []*mvccpb.KeyValue, head int64) ([]*mvccpb.KeyValue, time.Time) {
	latest, each := c.clock(ctx, mc, of, head)
	return slices.DeleteFunc(of, func(kv *mvccpb.KeyValue) bool {
		t, ok := each[string(kv.Key)]
		return !ok || latest.Sub(t) > clockSlack
	}), latest
}

func since(now, then time.Time) time.Duration {
	if now.IsZero() || then.IsZero() {
		return 0
	}
	return max(0, now.Sub(then))
}

// clock is the latest renewal in Leases as they were at a revision, and that of each; zero
// where none says one, or the revision was compacted meanwhile.
func (c *collector) clock(ctx context.Context, mc *cluster.MemberClient, of []*mvccpb.KeyValue, rev int64) (latest time.Time, each map[string]time.Time) {
	if len(of) == 0 {
		return latest, nil
	}
	ops := make([]clientv3.Op, 0, len(of))
	for _, kv := range of {
		ops = append(ops, clientv3.OpGet(string(kv.Key), clientv3.WithRev(rev), clientv3.WithSerializable()))
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.Config().MemberTimeout)
	defer cancel()
	c.asked("serializable range from "+mc.Label(), 1)
	r, err := mc.Etcd().Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return latest, nil
	}
	decode := codec.New()
	each = map[string]time.Time{}
	for _, one := range r.Responses {
		for _, kv := range one.GetResponseRange().GetKvs() {
			spec, _ := decode.Decode("leases.coordination.k8s.io", kv.Value).Tree["spec"].(map[string]any)
			text, _ := spec["renewTime"].(string)
			t, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				continue
			}
			if each[string(kv.Key)] = t; t.After(latest) {
				latest = t
			}
		}
	}
	return latest, each
}
