package ops

import (
	"context"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
)

// moveStep gives the leader's leadership away before its own turn.
func (d *defragmentation) moveStep(m cluster.Member, later bool) plan.Step {
	var view cluster.View
	s := plan.Step{StepResult: plan.StepResult{Subject: m.Label(), Action: "move leadership away",
		Reason: "a leader that defragments renews no lease; its successor is the voter that has applied most when it is due, never a learner"}}
	s.AfterEarlier = later
	s.Guard = func(ctx context.Context) (err error) {
		if view, err = d.guard(ctx, m); err != nil {
			return err
		}
		if view.Leader != m.ID {
			return plan.Skip("is not the leader any more")
		}
		view, err = d.judgeLate(ctx, view, m.ID)
		return err
	}
	s.Do = func(ctx context.Context, r *plan.StepResult) error {
		old, _ := view.MemberByID(m.ID)
		err := d.moveAway(ctx, view, old)
		if now, verr := d.c.View(ctx); err == nil && verr == nil {
			next, _ := now.LeaderMember()
			r.Reason = "to " + next.Label()
		}
		return err
	}
	return s
}

// handOver moves the leadership away from a member that has it after all: an election
// came in between, and the plan knew another leader.
func (d *defragmentation) handOver(ctx context.Context, view cluster.View, m cluster.Member) error {
	if view.Leader != m.ID || len(view.Voters()) <= 1 {
		return nil
	}
	return d.moveAway(ctx, view, m)
}

// moveAway moves the leadership from one member to the best of the others, and
// lets the cluster settle.
func (d *defragmentation) moveAway(ctx context.Context, view cluster.View, from cluster.Member) error {
	next, err := d.mover().away(ctx, view, from)
	if err != nil {
		return err
	}
	d.last, d.dist = time.Now(), next.ID
	return d.settle(ctx)
}

// mover moves the leadership, rather to a member that need not be defragmented
// any more.
func (d *defragmentation) mover() *leaderMove {
	return &leaderMove{c: d.c, sink: d.sink, op: "defrag", rather: d.todo}
}
