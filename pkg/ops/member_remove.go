package ops

import (
	"context"
	"fmt"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// RemoveOptions say which member to remove.
type RemoveOptions struct {
	Member string // name or hexadecimal ID
	MaxLag uint64 // entries that a voter may have to apply to count as one that carries on
}

// DefaultRemoveOptions returns what `kvd member remove` does when told nothing.
func DefaultRemoveOptions() RemoveOptions { return RemoveOptions{MaxLag: 5000} }

// removal is the member that is to go.
type removal struct {
	c      *membership
	m      cluster.Member
	maxLag uint64
	others func(cluster.View) error // what must hold of the others besides; nil: nothing
}

// PlanMemberRemove plans to remove a member: move the leadership away from it,
// remove it, verify. It refuses where the voters that are left would not be a
// quorum that is alive and has caught up. Errors are *fault.Error: Usage for a
// member that is not there, Refused by a guard, Unavailable without a quorum.
func PlanMemberRemove(client *cluster.Client, view cluster.View, o RemoveOptions, sink progress.Sink) (*plan.Plan, error) {
	c := &membership{client: client, sink: sink, op: "member remove"}
	if err := view.VotersErr(c.op); err != nil {
		return nil, err
	}
	m, err := findFor(c, view, o.Member)
	if err != nil {
		return nil, err
	}
	r := &removal{c: c, m: m, maxLag: o.MaxLag}
	if err := r.safe(view); err != nil {
		return nil, err
	}
	p := &plan.Plan{Op: c.op, Notes: r.notes(view)}
	if view.Leader == m.ID {
		p.Steps = append(p.Steps, r.moveStep())
	}
	p.Steps = append(p.Steps, r.removeStep(), r.verifyStep())
	return p, nil
}

func (r *removal) notes(view cluster.View) []string {
	var out []string
	switch {
	case r.m.Learner:
		out = append(out, "a learner: the quorum stays as it is")
	case !r.m.Started():
		out = append(out, "it was never started and counts for the quorum all the same")
		fallthrough
	default:
		b := balanceOf(view)
		out = append(out, afterwards(b, b.minus(r.m.Alive()))...)
	}
	return append(out, "for good: its process ends by itself when it hears of it, its data dir is of no use to etcd any more, and its ID never comes back. "+
		"A member in its place is a new one, with an empty data dir (kvd member add, or kvd member replace for both in one)")
}

// safe refuses a removal that could cost the quorum.
func (r *removal) safe(view cluster.View) error {
	if err := r.c.sound(view, r.m.ID); err != nil {
		return err
	}
	if r.others != nil {
		if err := r.others(view); err != nil {
			return err
		}
	}
	if r.m.Learner {
		return nil
	}
	hint := "bring the missing voters back, or remove one of those instead"
	if err := r.c.keepsQuorum(r.m.Label(), "removing it", balanceOf(view).minus(r.m.Alive()), hint); err != nil {
		return err
	}
	rest := without(view, map[uint64]bool{r.m.ID: true})
	b := balanceOf(rest)
	for _, v := range rest.Voters() {
		if v.Status != nil && view.Lag(v) > r.maxLag {
			b.alive--
		}
	}
	if b.lost() {
		return r.c.refused("lag", r.m.Label(), fmt.Sprintf("of the voters that would be left only %d have caught up, and it takes %d", b.alive, b.quorum()),
			"wait until they have, see the lag in `kvd member list`, or raise --max-lag")
	}
	return nil
}

// guard looks anew, and skips what is done.
func (r *removal) guard(ctx context.Context) (cluster.View, error) {
	view, err := r.c.View(ctx)
	if err != nil {
		return view, err
	}
	m, ok := view.MemberByID(r.m.ID)
	if !ok {
		return view, plan.Skip(removedSince)
	}
	r.m = m
	return view, r.safe(view)
}

func (r *removal) moveStep() plan.Step {
	var view cluster.View
	return plan.Step{
		StepResult: plan.StepResult{Subject: r.m.Label(), Action: "move leadership away", Reason: "to the voter that has applied most; an orderly move spares the clients an election"},
		Guard: func(ctx context.Context) (err error) {
			if view, err = r.guard(ctx); err == nil && view.Leader != r.m.ID {
				return plan.Skip("is not the leader any more")
			}
			return err
		},
		Do: func(ctx context.Context, res *plan.StepResult) error {
			next, err := r.c.mover(view, r.m.ID).away(ctx, view, r.m)
			if err == nil {
				res.Reason = "to " + next.Label()
			}
			return err
		},
	}
}

// mover moves the leadership for a change of the member list. Voters that are down
// in the view need not learn of it.
func (c *membership) mover(view cluster.View, rather ...uint64) *leaderMove {
	l := &leaderMove{c: c, sink: c.sink, op: c.op, rather: map[uint64]bool{}, absent: map[uint64]bool{}}
	for _, id := range rather {
		l.rather[id] = true
	}
	for _, m := range view.Silent() {
		l.absent[m.ID] = true
	}
	return l
}

func (r *removal) removeStep() plan.Step {
	var view cluster.View
	return plan.Step{
		StepResult: plan.StepResult{Subject: r.m.Label(), Action: "remove"},
		Guard: func(ctx context.Context) (err error) {
			view, err = r.guard(ctx)
			return err
		},
		Do: func(ctx context.Context, _ *plan.StepResult) error {
			if view.Leader == r.m.ID && len(view.Voters()) > 1 { // an election came in between
				if _, err := r.c.mover(view, r.m.ID).away(ctx, view, r.m); err != nil {
					return err
				}
			}
			return r.c.change(ctx, r.m.Label(), r.m.ID, func(mc *cluster.MemberClient) error {
				_, err := mc.RemoveMember(ctx, r.m.ID)
				return err
			}, func(list []cluster.Member) bool {
				_, there := byID(list, r.m.ID)
				return !there
			})
		},
	}
}

func (r *removal) verifyStep() plan.Step {
	return plan.Step{
		StepResult:   plan.StepResult{Subject: "cluster", Action: "verify", Reason: "the member list of each voter, the leader, a write"},
		AfterEarlier: true,
		Do: func(ctx context.Context, res *plan.StepResult) (err error) {
			res.Reason, err = r.c.verify(ctx, 0, func(view cluster.View) string {
				return r.c.listsAgree(ctx, view, func(list []cluster.Member) string {
					if _, ok := byID(list, r.m.ID); ok {
						return "has still " + r.m.Label() + " in its list"
					}
					return ""
				})
			})
			return err
		},
	}
}
