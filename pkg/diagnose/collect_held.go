package diagnose

import (
	"cmp"
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
)

// sampledLeases asks the leader about the leases that keys of the sample are on, by each
// of some ways, which have a timeout and an error of their own.
func (c *collector) sampledLeases(ctx context.Context, v cluster.View, ways ...func(context.Context, *cluster.MemberClient) error) {
	m, ok := v.LeaderMember()
	if !ok || c.in.Leases == nil || c.in.Keys == nil {
		return
	}
	mc, err := c.client.Member(m.ID)
	if err != nil {
		return // the leases are missing with the reason
	}
	for _, ask := range ways {
		within, cancel := context.WithTimeout(ctx, c.client.Config().CommandTimeout)
		if err := ask(within, mc); err != nil {
			c.missErr(NeedLeases, name(m), mc.Explain(within, "read lease", err))
		}
		cancel()
	}
}

// heldLeases asks for the leases that most keys of the sample are on: among many leases
// a lease with many keys is found by its keys, and by chance alone otherwise. As many
// are asked for as were before the sample.
func (c *collector) heldLeases(ctx context.Context, mc *cluster.MemberClient) error {
	for _, id := range c.in.Leases.toAsk(c.in.Keys.Leased, c.o.LeaseLimit) {
		c.asked("LeaseLeases, LeaseTimeToLive", 1)
		r, err := mc.Etcd().TimeToLive(ctx, clientv3.LeaseID(id), clientv3.WithAttachedKeys())
		if err != nil {
			return err
		}
		if r.GrantedTTL == 0 {
			continue // it has ended meanwhile
		}
		c.in.Leases.Asked = append(c.in.Leases.Asked, LeaseLook{ID: cluster.FormatID(uint64(id)), Granted: r.GrantedTTL, Now: &r.TTL, Keys: len(r.Keys)}) //nolint:gosec // bits, not a number
	}
	return nil
}

// toAsk are the leases that keys of a sample are on and that were not asked for, those
// with most keys first.
func (l *Leases) toAsk(held []keyspace.Leased, limit int) []int64 {
	held = slices.Clone(held)
	slices.SortStableFunc(held, func(a, b keyspace.Leased) int { return cmp.Compare(b.Keys, a.Keys) })
	var out []int64
	for _, h := range held {
		id := cluster.FormatID(uint64(h.Lease)) //nolint:gosec // bits, not a number
		if len(out) < limit && l.ids[h.Lease] && !slices.ContainsFunc(l.Asked, func(a LeaseLook) bool { return a.ID == id }) {
			out = append(out, h.Lease)
		}
	}
	return out
}
