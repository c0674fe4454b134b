package ops

import (
	"context"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// planDefragLate plans a defragmentation whose gain is brought about by steps
// before it: which member gains is not judged now, from sizes that are about to
// change, but when its turn comes. The steps are those of PlanDefrag. Packs may
// tell what is won beside the free pages.
func planDefragLate(ctx context.Context, client *cluster.Client, view cluster.View, o DefragOptions, sink progress.Sink, packs func(cluster.Member) int64) (*plan.Plan, error) {
	return planDefragAs(ctx, client, view, o, sink, true, packs)
}

// judgeLate is asked by a member's guard, with a fresh view: also where the plan
// was made of sizes that were true then, somebody else may have been there since.
// It returns the view that it judged by.
//
// Under NOSPACE a member's sizes may be old (see settle_refresh.go), so what was
// planned by them is done. Where nothing was planned by them, no member is passed
// over before the sizes have settled: a compaction that somebody else asked for
// just before may still be going on, or nobody may have counted what it freed.
func (d *defragmentation) judgeLate(ctx context.Context, view cluster.View, id uint64) (cluster.View, error) {
	nospace := view.HasAlarm(cluster.AlarmNoSpace)
	if !d.late && nospace {
		return view, nil
	}
	why, err := d.passOver(view, id)
	if err == nil && why != "" && nospace && d.settleSizes != nil {
		var settled cluster.View
		if settled, err = d.settleSizes(ctx); err != nil {
			return view, err
		}
		d.settleSizes = nil // once: nobody writes
		if m, ok := settled.MemberByID(id); ok && m.Status != nil {
			view = assumeLike(settled, view)
			why, err = d.passOver(view, id)
		}
	}
	if err != nil || why == "" {
		return view, err
	}
	delete(d.todo, id)
	return view, plan.Skip(why)
}

// passOver says why a member that was planned need not be defragmented after all.
func (d *defragmentation) passOver(view cluster.View, id uint64) (string, error) {
	m, ok := view.MemberByID(id)
	if !ok {
		return "", nil
	}
	return d.judge(view, m)
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
