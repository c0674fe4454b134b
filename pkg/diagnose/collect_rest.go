package diagnose

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
)

// rest looks at what one look is enough for.
func (c *collector) rest(ctx context.Context, leases map[string]LeaseLook) {
	v := c.in.Now.View
	c.lists(ctx, v)
	c.probe(ctx, v)
	c.certs(ctx, v)
	c.secondLeases(ctx, v, leases)
	c.denied(v)
	c.hosts()
	if m, mc := c.reader(v); mc != nil {
		c.keys(ctx, mc)
		c.sampledLeases(ctx, v, c.heldLeases, c.lostLeases)
		c.writes(ctx, m, mc)
		c.outlived(ctx, m, mc)
	} else {
		c.miss(NeedKeys, "", "no voter answers that could be read from", "see KVD-NET-001")
	}
	c.users(ctx, v)
	c.tokens(ctx, v)
	if c.o.Hash {
		c.hashes(ctx, v)
	} else {
		c.leftOut(NeedHashes, "not asked for: a member that computes its hash answers nobody else meanwhile", "--hash, one member at a time, followers first")
	}
}

// denied lists the members that are there and tell us nothing.
func (c *collector) denied(v cluster.View) {
	for _, m := range v.Silent() {
		if refusesUs(m.Err) {
			c.missErr(NeedView, name(m), m.Err)
		}
	}
	for _, u := range v.Unreached {
		if refusesUs(u.Err) {
			c.missErr(NeedView, u.Endpoint, u.Err)
		}
	}
}

// reader chooses whom to read from: a follower that lags little.
func (c *collector) reader(v cluster.View) (cluster.Member, *cluster.MemberClient) {
	all := slices.DeleteFunc(v.Answered(), func(m cluster.Member) bool { return m.Learner })
	leads := func(m cluster.Member) int {
		if m.ID == v.Leader {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b cluster.Member) int {
		return cmp.Or(cmp.Compare(leads(a), leads(b)), cmp.Compare(v.Lag(a), v.Lag(b)), cmp.Compare(a.Name, b.Name))
	})
	for _, m := range all {
		if mc, err := c.client.Member(m.ID); err == nil {
			return m, mc
		}
	}
	return cluster.Member{}, nil
}

func (c *collector) lists(ctx context.Context, v cluster.View) {
	asked := slices.DeleteFunc(v.Answered(), func(m cluster.Member) bool { return m.Learner }) // which do not tell theirs
	lists, errs := make([]OwnList, len(asked)), make([]error, len(asked))
	var wg sync.WaitGroup
	for i, m := range asked {
		wg.Go(func() {
			mc, err := c.client.Member(m.ID)
			if err == nil {
				lists[i].Of = m
				lists[i].Members, err = mc.OwnMembers(ctx)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for i, m := range asked {
		if errs[i] != nil {
			c.missErr(NeedLists, name(m), errs[i])
			continue
		}
		c.in.Lists = append(c.in.Lists, lists[i])
	}
	c.asked("serializable list of members", len(asked))
}

// probe asks what probes ask, where an alarm makes a difference.
func (c *collector) probe(ctx context.Context, v cluster.View) {
	if len(v.Alarms) == 0 || len(v.Answered()) == 0 {
		return
	}
	m := v.Answered()[0]
	base, err := metrics.Base(c.http, c.urls.For(m.Name, cluster.FormatID(m.ID), m.Endpoint))
	if err != nil {
		return // the metrics, which are at the same address, are missed with the reason
	}
	for _, path := range []string{"/health", "/health?exclude=NOSPACE", "/health?serializable=true", "/livez", "/readyz"} {
		ctx, cancel := context.WithTimeout(ctx, c.client.Config().MemberTimeout)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err == nil {
			c.asked("GET /health, /livez, /readyz", 1)
			if resp, err := c.http.Do(req); err == nil {
				_ = resp.Body.Close()
				c.in.Probes = append(c.in.Probes, Probe{m, path, resp.StatusCode, time.Now()})
			}
		}
		cancel()
	}
}

// keys looks into what is stored, within the limit of bytes.
func (c *collector) keys(ctx context.Context, mc *cluster.MemberClient) {
	if c.o.SampleBytes <= 0 {
		c.leftOut(NeedKeys, "not asked for", "--sample 16MiB")
		return
	}
	o := keyspace.DefaultLookOptions()
	o.SampleBytes, o.Layout, o.Timeout = c.o.SampleBytes, c.o.Layout, c.client.Config().CommandTimeout
	u, err := keyspace.Look(ctx, mc, o, progress.Discard)
	c.asked("serializable range from "+mc.Label(), int(u.Requests))
	if err != nil {
		c.missErr(NeedKeys, mc.Label(), err)
		return
	}
	c.in.Keys, c.o.Layout = &u, u.Layout
	c.compactor(ctx, mc)
}

// leases asks the leader for some leases; before the wait for the second sample, so
// that their times can be compared. Where that fails, the second try says why.
func (c *collector) leases(ctx context.Context, v cluster.View) map[string]LeaseLook {
	out := map[string]LeaseLook{}
	m, ok := v.LeaderMember()
	if !ok || m.Status == nil {
		return out
	}
	if all, err := c.someLeases(ctx, m, nil); err == nil {
		for _, l := range all.Asked {
			out[l.ID] = l
		}
	}
	return out
}

func (c *collector) secondLeases(ctx context.Context, v cluster.View, before map[string]LeaseLook) {
	m, ok := v.LeaderMember()
	if !ok || m.Status == nil {
		c.miss(NeedLeases, "", "only a leader knows what is left of a lease, and none answers", "see KVD-RAFT-001")
		return
	}
	all, err := c.someLeases(ctx, m, before)
	if err != nil {
		c.missErr(NeedLeases, name(m), err)
		return
	}
	c.in.Leases = &all
}

// someLeases lists all leases and asks for up to LeaseLimit of them, those that were
// asked before first. Keys are asked for the second time only, which is where before is
// not nil.
func (c *collector) someLeases(ctx context.Context, m cluster.Member, before map[string]LeaseLook) (Leases, error) {
	out := Leases{Member: name(m)}
	mc, err := c.client.Member(m.ID)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.Config().CommandTimeout)
	defer cancel()
	if err := mc.Connect(ctx); err != nil {
		return out, err
	}
	const what = "LeaseLeases, LeaseTimeToLive"
	c.asked(what, 1)
	list, err := mc.Etcd().Leases(ctx)
	if err != nil {
		return out, mc.Explain(ctx, "list leases", err)
	}
	ids := make([]clientv3.LeaseID, 0, len(list.Leases))
	for _, l := range list.Leases {
		ids = append(ids, l.ID)
	}
	out.ids = make(map[int64]bool, len(ids))
	for _, id := range ids {
		out.ids[int64(id)] = true
	}
	out.Total = len(ids)
	slices.SortStableFunc(ids, func(a, b clientv3.LeaseID) int { // a spread, and the same one each time
		_, seenA := before[cluster.FormatID(uint64(a))]
		_, seenB := before[cluster.FormatID(uint64(b))]
		return cmp.Or(-compareBool(seenA, seenB), cmp.Compare(scatter(a), scatter(b)))
	})
	var opts []clientv3.LeaseOption
	if before != nil {
		opts = append(opts, clientv3.WithAttachedKeys())
	}
	for _, id := range ids[:min(len(ids), c.o.LeaseLimit)] {
		c.asked(what, 1)
		r, err := mc.Etcd().TimeToLive(ctx, id, opts...)
		if err != nil {
			return out, mc.Explain(ctx, "read lease", err)
		}
		if r.GrantedTTL == 0 {
			continue // it has ended meanwhile
		}
		l := LeaseLook{ID: cluster.FormatID(uint64(id)), Granted: r.GrantedTTL, Now: &r.TTL, Keys: len(r.Keys)}
		if old, ok := before[l.ID]; ok {
			l.Before = old.Now
		}
		out.Asked = append(out.Asked, l)
	}
	return out, nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// scatter spreads IDs, which servers make by counting up.
func scatter(id clientv3.LeaseID) uint64 { return uint64(id) * 0x9e3779b97f4a7c15 } //nolint:gosec // bits, not a number
