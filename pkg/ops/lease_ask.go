package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/progress"
)

// leaseAsker asks a member for leases, one after the other: etcd tells neither times
// nor keys of more than one at once.
type leaseAsker struct {
	mc      *cluster.MemberClient
	op      string
	keys    bool
	rate    int // requests per second at most
	timeout time.Duration
	sink    progress.Sink
}

// each calls fn with each of the leases that is still there, and returns how many
// requests it made and how many leases have ended since they were listed. total is
// how many there are, of which these are all or some.
func (a leaseAsker) each(ctx context.Context, some []clientv3.LeaseStatus, total int, fn func(clientv3.LeaseID, Lease)) (requests, gone int, err error) {
	rate := max(1, a.rate)
	a.sink.Event(progress.Event{Op: a.op, Subject: a.mc.Label(), Note: fmt.Sprintf(
		"%s to %s, one for each of %d of %s, at %d per second at most", counted(len(some), "request"), a.mc.Label(), len(some), counted(total, "lease"), rate)})
	tick := time.NewTicker(max(time.Second/time.Duration(rate), 1))
	defer tick.Stop()
	for i, s := range some {
		if i > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return requests, gone, cluster.Classify("read leases", a.mc.Label(), ctx.Err())
			}
		}
		one, err := timeToLive(ctx, a.mc, s.ID, a.keys, a.timeout)
		requests++
		switch {
		case fault.CauseOf(err) == cluster.CauseLeaseNotFound:
			gone++
			continue
		case err != nil:
			return requests, gone, err
		}
		fn(s.ID, one)
		a.sink.Event(progress.Event{Op: a.op, Subject: a.mc.Label(), Phase: "asking", Done: int64(i + 1), Total: int64(len(some)), Unit: "leases"})
	}
	return requests, gone, nil
}

// listLeases lists the IDs of all leases that a member has, those that expire first
// first where it is the leader.
func listLeases(ctx context.Context, mc *cluster.MemberClient, timeout time.Duration) ([]clientv3.LeaseStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := mc.Etcd().Leases(ctx)
	if err != nil {
		return nil, mc.Explain(ctx, "list leases", err)
	}
	return resp.Leases, nil
}

// timeToLive asks for one lease. A lease that does not exist is an error of
// cause lease_not_found.
//
// etcd answers -1 seconds for a lease that it does not have, and also for one
// that expired between one and two seconds ago and is not revoked yet; the former
// is granted for nothing (LeaseTimeToLive in server/v3/etcdserver/api/v3rpc/lease.go,
// leaseTimeToLive in etcdserver/v3_server.go).
func timeToLive(ctx context.Context, mc *cluster.MemberClient, id clientv3.LeaseID, withKeys bool, timeout time.Duration) (Lease, error) {
	rctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var opts []clientv3.LeaseOption
	if withKeys {
		opts = append(opts, clientv3.WithAttachedKeys())
	}
	resp, err := mc.Etcd().TimeToLive(rctx, id, opts...)
	if err != nil {
		return Lease{}, mc.Explain(ctx, "read lease "+cluster.FormatID(uint64(id)), err)
	}
	if resp.GrantedTTL == 0 {
		return Lease{}, &fault.Error{Kind: fault.Wanting, Cause: cluster.CauseLeaseNotFound, Op: "lease show", Subject: cluster.FormatID(uint64(id)),
			Msg: "there is no such lease: it was never granted, was revoked, or expired", Hint: "see `kvd lease list`"}
	}
	out := Lease{ID: cluster.FormatID(uint64(id)), TTL: &resp.TTL, Granted: &resp.GrantedTTL, Expired: resp.TTL <= 0}
	if withKeys {
		out.Count = new(len(resp.Keys))
		for _, k := range resp.Keys {
			out.Keys = append(out.Keys, string(k))
		}
		slices.Sort(out.Keys)
	}
	return out, nil
}

// otherKeys is what keys are counted as that are no objects of Kubernetes.
const otherKeys = "other"

func tallyKeys(tally map[string]*LeaseResource, held []string, layout keys.Layout) {
	here := map[string]bool{}
	for _, k := range held {
		name := otherKeys
		if parsed, ok := layout.Parse(k); ok {
			name = parsed.GroupResource()
		}
		r := tally[name]
		if r == nil {
			r = &LeaseResource{Resource: name}
			tally[name] = r
		}
		r.Keys++
		if !here[name] {
			here[name] = true
			r.Leases++
		}
	}
}

func resourcesOf(tally map[string]*LeaseResource, held int64) []LeaseResource {
	out := []LeaseResource{}
	for _, r := range tally {
		r.Share = float64(r.Keys) / float64(max(held, 1))
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b LeaseResource) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Resource, b.Resource))
	})
	return out
}
