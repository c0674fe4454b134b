package ops

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

const (
	movePoll   = 100 * time.Millisecond
	moveLimit  = 30 * time.Second
	moveStable = 10 // how many polls in a row must show the new leader at every voter
	moveLag    = 10 // entries that the next leader may have to apply when it is chosen
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
		return d.judgeLate(view, m.ID)
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

// moveAway moves the leadership from one member to the best of the others, waits
// until every voter has known the new leader for a second, and lets the cluster
// settle.
func (d *defragmentation) moveAway(ctx context.Context, view cluster.View, from cluster.Member) error {
	next, err := d.chooseNext(ctx, view)
	if err != nil {
		return err
	}
	if err := d.waitCalm(ctx, next); err != nil {
		return err
	}
	d.sink.Event(progress.Event{Op: "defrag", Subject: from.Label(), Phase: "moving leadership", Note: "to " + next.Label()})
	if err := d.c.MoveLeader(ctx, from.ID, next.ID); err != nil && !uncertain(err) {
		return err
	}
	if err := d.leaderSettled(ctx, from); err != nil {
		return err
	}
	d.last, d.dist = time.Now(), next.ID
	return d.settle(ctx)
}

// chooseNext waits a moment for the best successor to have applied everything:
// until it has, the leader refuses new writes while it waits for it.
func (d *defragmentation) chooseNext(ctx context.Context, view cluster.View) (cluster.Member, error) {
	for limit := time.Now().Add(moveLimit); ; {
		next, ok := nextLeader(view, d.todo)
		if ok && view.Lag(next) <= moveLag {
			return next, nil
		}
		if !ok || time.Now().After(limit) {
			return next, &fault.Error{Kind: fault.Refused, Cause: "no_successor", Op: "defrag", Subject: "move leadership",
				Msg: "no voter is caught up enough to lead", Hint: "wait until the voters have applied what is committed"}
		}
		if err := wait(ctx, movePoll); err != nil {
			return next, err
		}
		var err error
		if view, err = d.c.View(ctx); err != nil {
			return next, err
		}
	}
}

// leaderSettled waits until every voter takes the same other member for the
// leader, several times in a row.
func (d *defragmentation) leaderSettled(ctx context.Context, from cluster.Member) error {
	same := 0
	var leader uint64
	for limit := time.Now().Add(moveLimit); ; {
		view, err := d.c.View(ctx)
		switch {
		case err != nil:
			same = 0
		case view.Leader == from.ID || leaderGate(view).refuse != "" || votersGate(view).refuse != "":
			same = 0
		case view.Leader != leader:
			leader, same = view.Leader, 1
		default:
			same++
		}
		if same >= moveStable {
			return nil
		}
		if time.Now().After(limit) {
			return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoLeader, Op: "defrag", Subject: from.Label(),
				Msg:  fmt.Sprintf("no new leader that every voter knows within %s", moveLimit),
				Hint: "nothing was defragmented after it; look at the voters' logs"}
		}
		if err := wait(ctx, movePoll); err != nil {
			return err
		}
	}
}
