package ops

import (
	"context"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// planDefragLate plans a defragmentation whose gain is brought about by steps
// before it: which member gains is not judged now, from sizes that are about to
// change, but when its turn comes. The steps are those of PlanDefrag.
func planDefragLate(ctx context.Context, client *cluster.Client, view cluster.View, o DefragOptions, sink progress.Sink) (*plan.Plan, error) {
	return planDefragAs(ctx, client, view, o, sink, true)
}

// judgeLate is asked by a member's guard, with a fresh view: also where the plan
// was made of sizes that were true then, somebody else may have been there since.
// Under NOSPACE a member's sizes may be old (see settle_refresh.go), and what was
// planned is done.
func (d *defragmentation) judgeLate(view cluster.View, id uint64) error {
	if !d.late && view.HasAlarm(cluster.AlarmNoSpace) {
		return nil
	}
	m, ok := view.MemberByID(id)
	if !ok {
		return nil
	}
	why, err := d.judge(view, m)
	if err != nil || why == "" {
		return err
	}
	delete(d.todo, id)
	return plan.Skip(why)
}

// predictedLate is a member's line in such a plan: what it will be after is not
// known yet.
func predictedLate(m cluster.Member) plan.StepResult {
	r := plan.StepResult{Subject: m.Label(), Action: "defragment", Reason: "if it gains by then"}
	if m.Status != nil {
		r.BeforeBytes = plan.Bytes(m.Status.DBSize)
	}
	return r
}
