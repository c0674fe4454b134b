package ops

import (
	"context"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// MoveLeaderOptions say where the leadership goes.
type MoveLeaderOptions struct {
	To string // name or hexadecimal ID; empty: the voter that has applied most
}

// PlanMoveLeader plans to move the leadership to a voter, and waits until every
// voter that answers knows of it. Errors are *fault.Error: Usage for a member that
// is not there, Refused for a learner or one that does not answer, Unavailable
// without a quorum.
func PlanMoveLeader(client *cluster.Client, view cluster.View, o MoveLeaderOptions, sink progress.Sink) (*plan.Plan, error) {
	c := &membership{client: client, sink: sink, op: "member move-leader"}
	if err := c.sound(view, 0); err != nil {
		return nil, err
	}
	from, ok := view.LeaderMember()
	if !ok {
		return nil, c.noQuorum(view, "the leader "+cluster.FormatID(view.Leader)+" is not in the member list")
	}
	l := c.mover(view, from.ID)
	if o.To != "" {
		to, err := findFor(c, view, o.To)
		if err != nil {
			return nil, err
		}
		if err := c.canLead(to); err != nil {
			return nil, err
		}
		l.to = to.ID
	}
	next, ok := l.next(view)
	if !ok || next.ID == from.ID && o.To == "" {
		return nil, c.refused("no_successor", from.Label(), "no other voter answers that could lead", "see `kvd member list`")
	}
	step := plan.Step{StepResult: plan.StepResult{Subject: next.Label(), Action: "move leadership to it", Reason: "from " + from.Label()}}
	if next.ID == from.ID {
		step.State, step.Reason = plan.Skipped, "is the leader already"
		return &plan.Plan{Op: c.op, Steps: []plan.Step{step}}, nil
	}
	step.Guard = func(ctx context.Context) (err error) {
		if view, err = c.View(ctx); err != nil {
			return err
		}
		if err := c.sound(view, 0); err != nil {
			return err
		}
		if l.to != 0 && view.Leader == l.to {
			return plan.Skip("is the leader already")
		}
		return nil
	}
	step.Do = func(ctx context.Context, r *plan.StepResult) error {
		from, _ := view.LeaderMember()
		got, err := l.away(ctx, view, from)
		if err == nil {
			r.Subject, r.Reason = got.Label(), "from "+from.Label()
		}
		return err
	}
	return &plan.Plan{Op: c.op, Steps: []plan.Step{step}}, nil
}

// canLead refuses a member that can't be given the leadership.
func (c *membership) canLead(m cluster.Member) error {
	switch {
	case m.Learner:
		return c.refused(cluster.CauseLearner, m.Label(), "a learner can't lead", "promote it first: kvd member promote "+nameOrID(m))
	case m.Status == nil:
		return c.refused("voter_missing", m.Label(), "does not answer, so whether it has caught up is not known", "choose another, see `kvd member list`")
	}
	return nil
}
