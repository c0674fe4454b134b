package ops

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/plan"
)

// marginShare is how much of the smallest quota the revisions that a rescue
// leaves in place may take up, at most. At the default quota of 2 GiB that is
// 32 MiB, enough for 1000 revisions of 32 KiB.
const marginShare = 1.0 / 64

// leastMargin is what is left in place all the same, unless it turns out to be
// too much: an estimate made while somebody else compacts can be far off.
const leastMargin = 10

// roomyShare is the share of the target from which on history is compacted.
const roomyShare = 0.5

// shrinkSteps plans what makes the files smaller, and the check that it did.
func (r *recovery) shrinkSteps(ctx context.Context, view cluster.View) ([]plan.Step, []string, error) {
	facts, err := r.compact.look(ctx, view)
	if err != nil {
		return nil, nil, err
	}
	margin, why := r.opts.KeepRevisions, "as told"
	if margin < 0 {
		if margin, why, err = r.margin(ctx, view, facts); err != nil {
			return nil, nil, err
		}
	}
	t := target{Rev: max(facts.Head-margin, 0), Why: fmt.Sprintf("head %d less %d revisions (%s)", facts.Head, margin, why)}
	if t, err = r.compact.avoidRecreated(ctx, t, facts); err != nil {
		return nil, nil, err
	}
	var steps []plan.Step
	said := notes(t, facts)
	switch {
	case r.opts.KeepRevisions < 0 && len(r.inUseAbove(view, roomyShare*r.opts.TargetUsage)) == 0:
		// As after a run that was interrupted: cutting off more readers wins nothing.
		steps = append(steps, plan.Step{StepResult: plan.StepResult{Subject: "cluster", Action: "compact", State: plan.Skipped,
			Reason: fmt.Sprintf("not needed: what is in use is below %.0f %% of the quota on every member", 100*roomyShare*r.opts.TargetUsage)}})
		said, margin = []string{fmt.Sprintf("revisions kept: %d to %d, left as they are", facts.Oldest, facts.Head)}, 0
	case t.Rev <= facts.Oldest:
		steps = append(steps, alreadyCompacted(t, facts))
	default:
		for _, s := range r.compact.steps(facts.Oldest, t.Rev) {
			s.Guard = r.beforeCompaction(s.Guard)
			steps = append(steps, s)
		}
	}
	for _, closer := range []int64{margin / 10, 0} {
		if closer < margin {
			steps = append(steps, r.closerStep(closer))
		}
		margin = closer
	}
	usage := r.usage(ctx, view)
	defrag, err := planDefragLate(ctx, r.client, view, r.opts.Defrag, r.sink, r.packs(usage))
	if err != nil {
		return nil, nil, err
	}
	steps = append(steps, defrag.Steps...)
	said = append(said, nobody(facts)...)
	if biggest := biggestOf(usage); len(biggest) > 0 {
		said = append(said, "most of the live data is "+groupsText(biggest))
	}
	return append(steps, r.checkStep()), said, nil
}

// beforeCompaction refuses to compact while a snapshot is sent, then asks as before.
func (r *recovery) beforeCompaction(guard func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		view, err := r.view(ctx)
		if err == nil {
			err = r.nothingSent(ctx, view)
		}
		if err != nil {
			return err
		}
		return guard(ctx)
	}
}

// margin chooses how many revisions to leave in place: minMargin, or fewer
// where those would take up too much of the smallest quota. The size of a
// revision is estimated from above: all that is in use, over the number of
// records there are at least.
func (r *recovery) margin(ctx context.Context, view cluster.View, f compactFacts) (int64, string, error) {
	quota := view.EffectiveQuota()
	if quota <= 0 {
		return minMargin, "no quota is known", nil
	}
	quorum, err := r.client.Quorum(ctx)
	if err != nil {
		return 0, "", err
	}
	count, err := quorum.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly(), clientv3.WithSerializable())
	if err != nil {
		return 0, "", err
	}
	records := max(count.Count, f.Head-f.Oldest, 1)
	perRevision := max(largestInUse(view)/records, 1)
	allowed := max(int64(marginShare*float64(quota))/perRevision, leastMargin)
	if allowed >= minMargin {
		return minMargin, "room for paged lists and for watches that reconnect", nil
	}
	return allowed, fmt.Sprintf("fewer than the usual %d, since a revision takes about %s and the quota is %s",
		minMargin, binary(perRevision), binary(quota)), nil
}

// closerStep compacts further where, after the steps before it, what is in use
// alone is still above the target on some member.
func (r *recovery) closerStep(margin int64) plan.Step {
	action := fmt.Sprintf("compact closer, to head less %d, if needed", margin)
	return plan.Step{
		StepResult: plan.StepResult{Subject: "cluster", Action: action},
		Do: func(ctx context.Context, res *plan.StepResult) error {
			view, err := r.view(ctx)
			if err != nil {
				return err
			}
			if len(r.inUseAbove(view, r.opts.TargetUsage)) == 0 {
				return plan.Skip("not needed: what is in use is below the target on every member")
			}
			if err := r.nothingSent(ctx, view); err != nil { // it may have begun since
				return err
			}
			facts, err := r.compact.look(ctx, view)
			if err != nil {
				return err
			}
			t := target{Rev: max(facts.Head-margin, 0)}
			if t, err = r.compact.avoidRecreated(ctx, t, facts); err != nil {
				return err
			}
			if t.Rev <= facts.Oldest {
				return plan.Skip(fmt.Sprintf("nothing to compact: the oldest revision kept is %d, the head is %d", facts.Oldest, facts.Head))
			}
			err = r.compact.compactTo(ctx, t.Rev, res)
			res.Reason = fmt.Sprintf("to revision %d: the margin itself kept a member above the target; %s", t.Rev, res.Reason)
			return err
		},
	}
}

// biggestShown is how many prefixes the rescue names, and biggestSample how many
// bytes of values it reads for that: the order is clear long before the sizes are.
const (
	biggestShown  = 3
	biggestSample = 8 << 20
)

// usage looks into the key space, by a sample. It is for advice, so that it is nil
// where that cannot be read.
func (r *recovery) usage(ctx context.Context, view cluster.View) *keyspace.Usage {
	o := keyspace.DefaultLookOptions()
	o.SampleBytes = biggestSample
	usage, _, err := lookAt(ctx, r.client, view, o, r.sink)
	if err != nil {
		return nil
	}
	return usage
}

// biggestOf returns the groups of keys that hold most of the live data.
func biggestOf(u *keyspace.Usage) []keyspace.Group {
	if u == nil {
		return nil
	}
	return u.Groups[:min(biggestShown, len(u.Groups))]
}

// packShare is the share of a file that must be neither free nor live data for a
// defragmentation to be tried for what it may pack.
const packShare = 0.1

// packs tells what a defragmentation may win of a file beside its free pages where
// the file is above the target without them: pages that are partly filled count as
// in use, such as those of very many leases, which are half empty. Live keys are
// known packed, so that what is more than them is what there is to win, at most.
func (r *recovery) packs(u *keyspace.Usage) func(cluster.Member) int64 {
	if u == nil {
		return nil
	}
	return func(m cluster.Member) int64 {
		full := len(r.inUseAbove(cluster.View{Members: []cluster.Member{m}}, r.opts.TargetUsage)) > 0
		more := m.Status.DBInUse - fixedPages - int64(u.InPages.Bytes+u.InPages.Error)
		if !full || float64(more) < packShare*float64(m.Status.DBSize) {
			return 0
		}
		return more
	}
}

func groupsText(groups []keyspace.Group) string {
	var said []string
	for _, g := range groups {
		said = append(said, groupText(g))
	}
	return strings.Join(said, "; ")
}
