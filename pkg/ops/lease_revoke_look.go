package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// LeaseTerm is how many leases were granted for the same time.
type LeaseTerm struct {
	Granted int64 `json:"granted_ttl_seconds"`
	Leases  int   `json:"leases"`
	Least   int64 `json:"least_left_seconds"`
	Most    int64 `json:"most_left_seconds"` // as much as was granted: just granted, renewed, or begun anew by an election
}

// termsKept is how many of them a report has at most, termsTold how many a note names.
const (
	termsKept = 20
	termsTold = 4
)

// namedLease is a lease that was named, as it was when the plan was made.
type namedLease struct {
	id     clientv3.LeaseID
	keys   []string // in their order
	gone   bool     // there is none
	dec    uint64   // the same digits read as decimal, 0 if they can't be
	expire bool     // it was past its time
}

// lookForEmpty lists all leases, and asks for each whether it has keys.
func (r *leaseRevocation) lookForEmpty(ctx context.Context) error {
	timeout := r.client.Config().CommandTimeout
	all, err := listLeases(ctx, r.mc, timeout)
	if err != nil {
		return err
	}
	d := r.detail
	d.Total, r.all = len(all), make(map[clientv3.LeaseID]bool, len(all))
	for _, l := range all {
		r.all[l.ID] = true
	}
	terms := map[int64]*LeaseTerm{}
	asker := leaseAsker{mc: r.mc, op: opLeaseRevoke, keys: true, rate: r.opts.Rate, timeout: timeout, sink: r.sink}
	_, d.Ended, err = asker.each(ctx, all, len(all), func(id clientv3.LeaseID, l Lease) {
		switch {
		case len(l.Keys) > 0:
			d.Kept++
			d.KeptKeys += int64(len(l.Keys))
		case time.Duration(*l.Granted)*time.Second <= r.opts.GrantedOver:
			d.Shorter++
		default:
			r.selected = append(r.selected, id)
			addTerm(terms, l)
		}
	})
	d.Selected = len(r.selected)
	r.terms(terms)
	return err
}

// lookAtNamed asks for each of the leases that were named.
func (r *leaseRevocation) lookAtNamed(ctx context.Context) error {
	terms, tally, seen := map[int64]*LeaseTerm{}, map[string]*LeaseResource{}, map[uint64]bool{}
	all, err := listLeases(ctx, r.mc, r.client.Config().CommandTimeout)
	if err != nil {
		return err
	}
	r.detail.Total = len(all)
	for _, arg := range r.opts.IDs {
		id, decimal, err := ParseLeaseID(arg)
		if err != nil {
			return err
		}
		if seen[id] {
			continue
		}
		if seen[id] = true; len(seen) > 1 {
			if err := pauseBetween(ctx, time.Second/time.Duration(r.opts.Rate)); err != nil {
				return err
			}
		}
		n := namedLease{id: clientv3.LeaseID(id), dec: decimal} //nolint:gosec // the same bits
		l, err := r.ask(ctx, n.id)
		switch {
		case fault.CauseOf(err) == cluster.CauseLeaseNotFound:
			n.gone = true
		case err != nil:
			return err
		default:
			n.keys, n.expire = l.Keys, l.Expired
			addTerm(terms, l)
			tallyKeys(tally, l.Keys, r.opts.Layout)
			r.detail.Selected++
			r.detail.SelectedKeys += int64(len(l.Keys))
			l.Example, l.Keys = l.Keys[:min(namesTold, len(l.Keys))], nil
			r.detail.Leases = append(r.detail.Leases, l)
		}
		r.named = append(r.named, n)
	}
	r.terms(terms)
	r.detail.Resources = resourcesOf(tally, r.detail.SelectedKeys)
	return refuseProtected(opLeaseRevoke, "", "leave out the leases that these are on (`kvd lease show ID`)", r.opts.MeanIt, protectedOn(r.named, r.opts.Layout))
}

func addTerm(terms map[int64]*LeaseTerm, l Lease) {
	t := terms[*l.Granted]
	if t == nil {
		t = &LeaseTerm{Granted: *l.Granted, Least: *l.TTL, Most: *l.TTL}
		terms[t.Granted] = t
	}
	t.Leases++
	t.Least, t.Most = min(t.Least, *l.TTL), max(t.Most, *l.TTL)
}

// terms puts them into the report, those of most leases first.
func (r *leaseRevocation) terms(terms map[int64]*LeaseTerm) {
	for _, t := range terms {
		r.detail.Granted = append(r.detail.Granted, *t)
	}
	slices.SortFunc(r.detail.Granted, func(a, b LeaseTerm) int {
		return cmp.Or(cmp.Compare(b.Leases, a.Leases), cmp.Compare(a.Granted, b.Granted))
	})
	r.detail.Terms = len(terms)
	r.detail.Granted = r.detail.Granted[:min(termsKept, len(terms))]
}

// termsNote says how long leases were granted for, and what is left of that.
func termsNote(terms []LeaseTerm, all int) string {
	seconds := func(n int64) string { return (time.Duration(max(0, n)) * time.Second).String() }
	var said []string
	for _, t := range terms[:min(termsTold, len(terms))] {
		left := seconds(t.Least)
		if t.Least != t.Most {
			left += " to " + seconds(t.Most)
		}
		said = append(said, fmt.Sprintf("%s (%s, %s left)", seconds(t.Granted), counted(t.Leases, "lease"), left))
	}
	out := "granted for " + strings.Join(said, ", ")
	if more := all - len(said); more > 0 {
		out += fmt.Sprintf(" and %d other times", more)
	}
	return out
}

// ask asks the leader for one lease with its keys. Where the member that was asked
// does not answer, another is chosen.
func (r *leaseRevocation) ask(ctx context.Context, id clientv3.LeaseID) (l Lease, err error) {
	_, err = again(ctx, r.client, r.sink, r.about(id), func() error {
		if r.mc == nil {
			if err := r.choose(ctx); err != nil {
				return err
			}
		}
		l, err = timeToLive(ctx, r.mc, id, true, r.client.Config().CommandTimeout)
		if err != nil && fault.CauseOf(err) != cluster.CauseLeaseNotFound {
			r.mc = nil
		}
		return err
	})
	return l, err
}

// choose chooses whom to ask.
func (r *leaseRevocation) choose(ctx context.Context) error {
	view, err := r.client.VotersView(ctx)
	if err != nil {
		return err
	}
	if view.Leader == 0 {
		return errNoLeaderForTTL()
	}
	mc, err := leaseMember(r.client, view)
	if err != nil {
		return err
	}
	if err := mc.Connect(ctx); err != nil {
		return err
	}
	r.mc = mc
	return nil
}
