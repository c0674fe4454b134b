package diagnose

import (
	"context"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/keys"
)

// clockLeases is how many Leases are read as clocks: of some nobody renews any more.
const clockLeases = 20

// compactor looks at the marker that kube-apiserver leaves when it compacts, and at how
// old that is. A revision has no time; but Leases are renewed every few seconds, with
// the time in them, and etcd shows what one was at an older revision.
func (c *collector) compactor(ctx context.Context, mc *cluster.MemberClient) {
	source := "serializable range from " + mc.Label()
	i := slices.IndexFunc(c.in.Keys.Groups, func(g keyspace.Group) bool {
		return strings.HasPrefix(g.Resource, "leases") && strings.HasSuffix(string(g.Prefix), "/leases/")
	})
	r, err := mc.Get(ctx, keys.CompactRevKey)
	c.asked(source, 1)
	if err != nil {
		c.missErr(NeedCompactor, mc.Label(), err)
		return
	}
	out := Compactor{Key: keys.CompactRevKey, Head: c.in.Keys.Revision, Source: "Leases and " + keys.CompactRevKey + " of " + mc.Label()}
	if len(r.Kvs) == 1 {
		out.ModRevision = r.Kvs[0].ModRevision
	} else if i < 0 {
		return // not Kubernetes'
	}
	c.in.Compactor = &out
	defer func() {
		if out.Kept == 0 {
			c.leftOut(NeedCompactor, "no Lease is renewed that would tell how old a revision is", "")
		}
	}()
	if i < 0 {
		return
	}
	prefix := string(c.in.Keys.Groups[i].Prefix)
	names, err := mc.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithLimit(clockLeases), clientv3.WithSerializable(), clientv3.WithKeysOnly(), clientv3.WithRev(out.Head))
	c.asked(source, 1)
	if err != nil || len(names.Kvs) == 0 {
		return // there is no clock
	}
	first := names.Kvs[0].CreateRevision
	for _, kv := range names.Kvs {
		first = min(first, kv.CreateRevision)
	}
	at := func(rev int64) time.Time {
		t := c.clock(ctx, mc, names, rev)
		c.asked(source, 1)
		return t
	}
	now, oldest := at(out.Head), max(c.in.Keys.Oldest, first)
	out.Kept = since(now, at(oldest))
	switch {
	case out.ModRevision == 0:
		out.Age = out.Kept
	case out.ModRevision >= first:
		out.Age = since(now, at(max(out.ModRevision, oldest)))
	}
}

func since(now, then time.Time) time.Duration {
	if now.IsZero() || then.IsZero() {
		return 0
	}
	return max(0, now.Sub(then))
}

// clock is the latest renewal in Leases as they were at a revision; zero where none
// says one, or the revision was compacted meanwhile.
func (c *collector) clock(ctx context.Context, mc *cluster.MemberClient, of *clientv3.GetResponse, rev int64) (latest time.Time) {
	ops := make([]clientv3.Op, 0, len(of.Kvs))
	for _, kv := range of.Kvs {
		ops = append(ops, clientv3.OpGet(string(kv.Key), clientv3.WithRev(rev), clientv3.WithSerializable()))
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.Config().MemberTimeout)
	defer cancel()
	r, err := mc.Etcd().Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return latest
	}
	decode := codec.New()
	for _, one := range r.Responses {
		for _, kv := range one.GetResponseRange().GetKvs() {
			spec, _ := decode.Decode("leases.coordination.k8s.io", kv.Value).Tree["spec"].(map[string]any)
			text, _ := spec["renewTime"].(string)
			if t, err := time.Parse(time.RFC3339Nano, text); err == nil && t.After(latest) {
				latest = t
			}
		}
	}
	return latest
}
