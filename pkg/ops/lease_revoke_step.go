package ops

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// countedFor is how long the member that is asked may take to apply what another one
// has answered.
const countedFor = 10 * time.Second

func (r *leaseRevocation) about(id clientv3.LeaseID) progress.Event {
	return progress.Event{Op: opLeaseRevoke, Subject: "lease " + cluster.FormatID(uint64(id))} //nolint:gosec // the same bits
}

// revokeEmpty revokes the leases without keys, and counts what is left.
func (r *leaseRevocation) revokeEmpty(ctx context.Context, res *plan.StepResult) error {
	res.BeforeBytes = r.inUse(ctx)
	before, err := r.timeRevocations(ctx)
	if err != nil {
		return err
	}
	pace := newLeasePace(r.opts.Rate, before)
	defer func() { res.Reason = r.summary(pace) }()
	for i, id := range r.selected {
		began := time.Now()
		if err := r.revokeIfEmpty(ctx, id, pace); err != nil {
			return err
		}
		r.sink.Event(progress.Event{Op: opLeaseRevoke, Subject: "cluster", Phase: "revoking", Done: int64(i + 1), Total: int64(len(r.selected)), Unit: "leases"})
		if err := pauseBetween(ctx, pace.gap()-time.Since(began)); err != nil {
			return err
		}
	}
	err = r.count(ctx)
	res.AfterBytes = r.inUse(ctx)
	return err
}

// revokeIfEmpty asks once more whether a key is on a lease, and revokes it if not.
func (r *leaseRevocation) revokeIfEmpty(ctx context.Context, id clientv3.LeaseID, pace *leasePace) error {
	l, err := r.ask(ctx, id)
	switch {
	case fault.CauseOf(err) == cluster.CauseLeaseNotFound:
		r.detail.Ended++
		return nil
	case err != nil:
		return err
	case len(l.Keys) > 0:
		r.detail.GotKeys++
		return nil
	}
	began := time.Now()
	if err := r.revoke(ctx, id); err != nil {
		return err
	}
	pace.answered(time.Since(began))
	return nil
}

// revoke revokes a lease. Sent twice it revokes no other.
func (r *leaseRevocation) revoke(ctx context.Context, id clientv3.LeaseID) error {
	lost, err := again(ctx, r.client, r.sink, r.about(id), func() error {
		quorum, err := r.client.Quorum(ctx)
		if err != nil {
			return err
		}
		return quorum.LeaseRevoke(ctx, id)
	})
	switch {
	case err == nil, lost && fault.CauseOf(err) == cluster.CauseLeaseNotFound: // by the request whose answer did not come
		r.detail.Revoked++
		r.revoked[id] = true
		return nil
	case fault.CauseOf(err) == cluster.CauseLeaseNotFound:
		r.detail.Ended++
		return nil
	}
	return err
}

// timeRevocations measures what a small write takes: the revocation of a lease that
// does not exist goes the whole way of a write, for any user, and changes nothing.
func (r *leaseRevocation) timeRevocations(ctx context.Context) (latency, error) {
	quorum, err := r.client.Quorum(ctx)
	if err != nil {
		return latency{}, err
	}
	var took []time.Duration
	for range recent {
		began := time.Now()
		err := quorum.LeaseRevoke(ctx, r.nobodys())
		if err != nil && fault.CauseOf(err) != cluster.CauseLeaseNotFound && !passing(err) {
			return latency{}, err
		}
		took = append(took, time.Since(began))
		if err := pauseBetween(ctx, probePause); err != nil {
			return latency{}, err
		}
	}
	return quantiles(took), nil
}

// nobodys is an ID that no lease has: one of 2^63, so that nobody else chooses it.
func (r *leaseRevocation) nobodys() clientv3.LeaseID {
	for {
		if id := clientv3.LeaseID(rand.Int64()); id != 0 && !r.all[id] { //nolint:gosec // need not be secret
			return id
		}
	}
}

// count lists the leases again: none of those that were revoked may be among them.
func (r *leaseRevocation) count(ctx context.Context) error {
	for limit := time.Now().Add(countedFor); ; {
		var all []clientv3.LeaseStatus
		_, err := again(ctx, r.client, r.sink, progress.Event{Op: opLeaseRevoke, Subject: "cluster"}, func() (err error) {
			if r.mc == nil {
				if err := r.choose(ctx); err != nil {
					return err
				}
			}
			if all, err = listLeases(ctx, r.mc, r.client.Config().CommandTimeout); err != nil {
				r.mc = nil
			}
			return err
		})
		if err != nil {
			return err
		}
		there, since := 0, 0
		for _, l := range all {
			if r.revoked[l.ID] {
				there++
			}
			if !r.all[l.ID] {
				since++
			}
		}
		r.detail.After, r.detail.Since = new(len(all)), &since
		if there == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return &fault.Error{Kind: fault.Partial, Cause: "leases_left", Op: opLeaseRevoke,
				Msg:  fmt.Sprintf("%d of the leases that were revoked are listed still, %s later", there, countedFor),
				Hint: "see whether all members apply what is written: `kvd status`; then run the same again"}
		}
		if err := pauseBetween(ctx, settlePoll); err != nil {
			return err
		}
	}
}

// summary says how far it came.
func (r *leaseRevocation) summary(pace *leasePace) string {
	d := r.detail
	s := counted(d.Revoked, "lease") + " revoked"
	if d.GotKeys > 0 {
		s += fmt.Sprintf("; %d kept, which keys were put on since the plan was made", d.GotKeys)
	}
	if d.Ended > 0 {
		s += fmt.Sprintf("; %d had ended", d.Ended)
	}
	if d.After != nil {
		s += fmt.Sprintf("; %s left", counted(*d.After, "lease"))
		if *d.Since > 0 {
			s += fmt.Sprintf(", of which %d were granted since the plan was made", *d.Since)
			if *d.Since >= len(r.selected)/10 {
				s += ": find the client that grants them"
			}
		}
	}
	return s + "; " + pace.text()
}

// inUse is how much of its file the member that was asked has in use, nil where that
// cannot be had.
func (r *leaseRevocation) inUse(ctx context.Context) *int64 {
	view, err := r.client.VotersView(ctx)
	if err != nil {
		return nil
	}
	refreshSizes(ctx, r.client, view)
	if view, err = r.client.VotersView(ctx); err != nil {
		return nil
	}
	m, ok := view.MemberByID(r.asked)
	if !ok || m.Status == nil {
		return nil
	}
	return plan.Bytes(m.Status.DBInUse)
}

// namedStep revokes one lease that was named, with the keys that the plan has shown.
func (r *leaseRevocation) namedStep(n *namedLease, behind bool) plan.Step {
	s := plan.Step{StepResult: plan.StepResult{Subject: r.about(n.id).Subject, Action: "revoke; it has no keys"}}
	if len(n.keys) > 0 {
		s.Action = fmt.Sprintf("revoke, which deletes %s: %s", counted(len(n.keys), "key"), keyNames(n.keys, r.opts.Layout))
	}
	if n.gone {
		s.Action, s.State, s.Reason = "revoke", plan.Skipped, "there is no such lease: it was never granted, was revoked, or expired"
		if n.dec != 0 {
			s.Reason += fmt.Sprintf("; the digits were read as hexadecimal, and if they are decimal it is %s", cluster.FormatID(n.dec))
		}
		return s
	}
	s.Do = func(ctx context.Context, res *plan.StepResult) error {
		if behind {
			if err := pauseBetween(ctx, time.Second/time.Duration(r.opts.Rate)); err != nil {
				return err
			}
		}
		return r.revokeNamed(ctx, n, res)
	}
	return s
}

func (r *leaseRevocation) revokeNamed(ctx context.Context, n *namedLease, res *plan.StepResult) error {
	l, err := r.ask(ctx, n.id)
	if fault.CauseOf(err) == cluster.CauseLeaseNotFound {
		r.detail.Ended++
		return plan.Skip("it has ended meanwhile")
	}
	if err != nil {
		return err
	}
	var more []string
	for _, key := range l.Keys {
		if _, planned := slices.BinarySearch(n.keys, key); !planned {
			more = append(more, key)
		}
	}
	if len(more) > 0 {
		r.detail.GotKeys++
		return plan.PassOver(&fault.Error{Kind: fault.Refused, Cause: "keys_since", Op: opLeaseRevoke, Subject: res.Subject,
			Msg:  fmt.Sprintf("%s came onto it since the plan was made, and would go with it: %s", counted(len(more), "key"), keyNames(more, r.opts.Layout)),
			Hint: "somebody uses it: find out who; or run the same again, which makes a new plan"})
	}
	if err := r.revoke(ctx, n.id); err != nil {
		return err
	}
	for limit := time.Now().Add(countedFor); ; {
		_, err := r.ask(ctx, n.id)
		switch {
		case fault.CauseOf(err) == cluster.CauseLeaseNotFound:
			res.Reason = "revoked, with " + counted(len(l.Keys), "key")
			return nil
		case err != nil:
			return err
		case time.Now().After(limit):
			return &fault.Error{Kind: fault.Partial, Cause: "leases_left", Op: opLeaseRevoke, Subject: res.Subject,
				Msg: fmt.Sprintf("it is there still, %s after it was revoked", countedFor), Hint: "see whether somebody grants it anew: `kvd lease show`"}
		}
		if err := pauseBetween(ctx, settlePoll); err != nil {
			return err
		}
	}
}
