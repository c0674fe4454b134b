package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// RecoverOptions says how to get a cluster out of NOSPACE.
type RecoverOptions struct {
	TargetUsage   float64 // each member's file over its own quota, at most, before the alarm is disarmed
	KeepRevisions int64   // margin of the compaction; < 0: kvd chooses
	Compact       CompactOptions
	Defrag        DefragOptions
}

// DefaultRecoverOptions returns what `kvd alarm recover` does when told nothing.
func DefaultRecoverOptions() RecoverOptions {
	o := RecoverOptions{TargetUsage: 0.9, KeepRevisions: -1, Compact: DefaultCompactOptions(), Defrag: DefaultDefragOptions()}
	// Nobody writes while the alarm is raised, so that there is little to catch
	// up with between two members, and every second counts.
	o.Defrag.Settle = time.Second
	return o
}

// recovery is one rescue being planned or run.
type recovery struct {
	client   *cluster.Client
	opts     RecoverOptions
	recorded cluster.View // the view the plan was made from
	sink     progress.Sink
	compact  *compaction
}

// PlanRecover plans the whole way from NOSPACE back to writable: compact with a
// margin, compact closer where the margin itself is too much, defragment what
// gains, check every member against its own quota, disarm, and prove it.
//
// Every step looks anew at what is needed, so that a run that was interrupted
// anywhere is finished by the next one.
func PlanRecover(ctx context.Context, client *cluster.Client, view cluster.View, o RecoverOptions, sink progress.Sink) (*plan.Plan, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	urls, err := o.Defrag.metricsOf(view)
	if err != nil {
		return nil, err
	}
	view = WithQuotas(ctx, client, urls, view)
	r := &recovery{client: client, opts: o, recorded: view, sink: sink,
		compact: &compaction{client: client, opts: o.Compact, sink: sink}}
	if err := r.refuse(view); err != nil {
		return nil, err
	}
	if err := apartErr(ctx, client, view, "alarm recover", "a member refuses to compact up to a revision that it does not have, and writes would go on on top of that"); err != nil {
		return nil, err
	}
	view, err = trueSizes(ctx, client, view)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{Op: "alarm recover", Notes: r.whatIsWrong(view)}
	if len(nospace(view)) > 0 || len(r.above(view)) > 0 {
		steps, notes, err := r.shrinkSteps(ctx, view)
		if err != nil {
			return nil, err
		}
		p.Steps, p.Notes = append(p.Steps, steps...), append(p.Notes, notes...)
		p.Guard = r.everyVoter
	}
	for _, a := range nospace(view) {
		p.Steps = append(p.Steps, disarmStep(client, a, disarmGuard(client, view, a, DefaultDisarmOptions())))
	}
	for _, m := range view.Voters() {
		if m.Status != nil {
			p.Steps = append(p.Steps, r.proveStep(m))
		}
	}
	for i := range p.Steps {
		p.Steps[i].AfterEarlier = i > 0
	}
	return p, nil
}

func (o RecoverOptions) check() error {
	if !(o.TargetUsage > 0 && o.TargetUsage < 1) { // which a NaN is not either
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "alarm recover",
			Msg: fmt.Sprintf("--target-usage %g: want a ratio between 0 and 1, for example 0.9", o.TargetUsage)}
	}
	if o.KeepRevisions < -1 {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "alarm recover",
			Msg: fmt.Sprintf("--keep-revisions %d: want 0 or more, or -1 to let kvd choose", o.KeepRevisions)}
	}
	return errors.Join(o.Compact.check("alarm recover"), o.Defrag.check())
}

// refuse names what makes a rescue impossible from the start.
func (r *recovery) refuse(view cluster.View) error {
	if view.HasAlarm(cluster.AlarmCorrupt) {
		return &fault.Error{Kind: fault.Refused, Cause: cluster.CauseCorrupt, Op: "alarm recover",
			Msg: "a CORRUPT alarm is raised: members hold different data, and etcd refuses compactions",
			Hint: "take a snapshot of a member of the majority, remove the corrupt member and add it again with an empty " +
				"data dir, disarm CORRUPT, then run this again"}
	}
	if err := canCommit(view, "alarm recover"); err != nil {
		return err
	}
	for _, m := range view.Answered() {
		if m.Status.EffectiveQuota() == cluster.QuotaUnknown {
			return &fault.Error{Kind: fault.Usage, Cause: "quota_unknown", Op: "alarm recover", Subject: m.Label(),
				Msg:  fmt.Sprintf("etcd %s %s", m.Status.Version, quotaUnread),
				Hint: "say where they are with --metrics-url, or give the server's --quota-backend-bytes with --quota"}
		}
	}
	return nil
}

// whatIsWrong puts the state the plan starts from into words.
func (r *recovery) whatIsWrong(view cluster.View) []string {
	var out []string
	for _, a := range nospace(view) {
		out = append(out, fmt.Sprintf("NOSPACE raised by %s", alarmOwner(a)))
	}
	for _, m := range view.Answered() {
		out = append(out, sizeNote(m))
	}
	if n := quotasDiffer(view); n != "" {
		out = append(out, n)
	}
	for _, m := range r.above(view) {
		if !m.Learner {
			continue
		}
		out = append(out, fmt.Sprintf("%s is a learner, whose file no step of this makes smaller, and it counts like a voter's: before the alarm is disarmed this stops, unless %s",
			m.Label(), learnerShrink(m)))
	}
	for _, m := range view.Voters() {
		if m.Status == nil {
			out = append(out, fmt.Sprintf("%s does not answer (%s): no member is defragmented while a voter is missing", m.Label(), fault.CauseOf(m.Err)))
		}
	}
	if len(nospace(view)) == 0 && len(r.above(view)) == 0 {
		out = append(out, fmt.Sprintf("no NOSPACE alarm, and every member is below %.0f %% of its quota: all that is left to do is to prove it",
			100*r.opts.TargetUsage))
	}
	return out
}

// everyVoter refuses a rescue that would stop before its first defragmentation,
// after it had taken the history away for nothing.
func (r *recovery) everyVoter(ctx context.Context) error {
	view, err := r.view(ctx)
	if err != nil {
		return err
	}
	g := votersGate(view)
	if g.refuse == "" {
		return r.nothingSent(ctx, view)
	}
	return &fault.Error{Kind: fault.Refused, Cause: g.cause, Op: "alarm recover", Msg: g.refuse + "; no member is defragmented while a voter is missing", Hint: g.hint}
}

// sentLooks is how often a snapshot must be seen under way: sizes are counted anew by
// opening one (see refreshSizes), and a member takes a moment to end that.
const sentLooks = 4

// nothingSent refuses a rescue while a voter sends its database: it would stop at that
// member's defragmentation. And what is compacted meanwhile does not become free, for
// the reader holds on to the pages (etcd issue 18509), so that it would be compacted up
// to the head for nothing.
func (r *recovery) nothingSent(ctx context.Context, view cluster.View) error {
	urls, err := r.opts.Defrag.metricsOf(view)
	if err != nil {
		return err
	}
	c := &liveCluster{client: r.client, urls: urls, http: r.client.HTTPClient()}
	for _, m := range view.Voters() {
		to := ""
		for look := range sentLooks {
			s, err := c.Metrics(ctx, m)
			if err != nil { // as for a defragmentation, see undisturbed
				to = ""
				break
			}
			if to = sending(s); to == "" || look == sentLooks-1 {
				break
			}
			if err := wait.For(ctx, settlePoll); err != nil {
				return err
			}
		}
		if to != "" {
			return &fault.Error{Kind: fault.Refused, Cause: causeSnapshotInflight, Op: "alarm recover", Subject: m.Label(),
				Msg:  "it sends its database to " + to + ", which holds on to its pages: nothing that is compacted becomes free, and it cannot be defragmented, until that has ended",
				Hint: snapshotEnds}
		}
	}
	return nil
}

func sizeNote(m cluster.Member) string {
	q := m.Status.EffectiveQuota()
	if q <= 0 {
		return fmt.Sprintf("%s: file %s, in use %s, no quota", m.Label(), binary(m.Status.DBSize), binary(m.Status.DBInUse))
	}
	return fmt.Sprintf("%s: file %s of quota %s (%.0f %%), in use %s", m.Label(), binary(m.Status.DBSize), binary(q),
		100*float64(m.Status.DBSize)/float64(q), binary(m.Status.DBInUse))
}

// quotasDiffer says so where one member's quota caps the others.
func quotasDiffer(view cluster.View) string {
	smallest, largest := cluster.Member{}, cluster.Member{}
	for _, m := range view.Answered() {
		q := m.Status.EffectiveQuota()
		if q <= 0 {
			continue
		}
		if smallest.Status == nil || q < smallest.Status.EffectiveQuota() {
			smallest = m
		}
		if largest.Status == nil || q > largest.Status.EffectiveQuota() {
			largest = m
		}
	}
	if smallest.Status == nil || smallest.Status.EffectiveQuota() == largest.Status.EffectiveQuota() {
		return ""
	}
	return fmt.Sprintf("quotas differ: %s has %s, %s has %s; the smallest counts for the whole cluster. "+
		"Align --quota-backend-bytes and restart that member", smallest.Label(), binary(smallest.Status.EffectiveQuota()),
		largest.Label(), binary(largest.Status.EffectiveQuota()))
}

// above lists the members whose file is above the target share of their quota.
func (r *recovery) above(view cluster.View) []cluster.Member {
	var out []cluster.Member
	for _, m := range view.Answered() {
		if q := m.Status.EffectiveQuota(); q > 0 && float64(m.Status.DBSize) >= r.opts.TargetUsage*float64(q) {
			out = append(out, m)
		}
	}
	return out
}

// inUseAbove lists the members of which what is in use alone, and so the file
// after a defragmentation, is above a share of the quota.
func (r *recovery) inUseAbove(view cluster.View, share float64) []cluster.Member {
	var out []cluster.Member
	for _, m := range view.Answered() {
		if q := m.Status.EffectiveQuota(); q > 0 && float64(m.Status.DBInUse) >= share*float64(q) {
			out = append(out, m)
		}
	}
	return out
}

// view takes a fresh picture with the quotas that are known.
func (r *recovery) view(ctx context.Context) (cluster.View, error) {
	v, err := r.client.VotersView(ctx)
	return assumeLike(v, r.recorded), err
}

// checkStep stops the rescue before the disarm where a member is still too full.
func (r *recovery) checkStep() plan.Step {
	return plan.Step{
		StepResult: plan.StepResult{Subject: "cluster", Action: fmt.Sprintf("check that all are below %.0f %% of quota", 100*r.opts.TargetUsage)},
		Do: func(ctx context.Context, res *plan.StepResult) error {
			view, err := r.view(ctx)
			if err != nil {
				return err
			}
			full := r.above(view)
			if len(full) > 0 {
				return r.tooFull(ctx, view, full)
			}
			var said []string
			for _, m := range view.Answered() {
				said = append(said, sizeNote(m))
			}
			res.Reason = strings.Join(said, "; ")
			return nil
		},
	}
}

// tooFull explains why nothing more can be won by compacting and defragmenting,
// and what can be done.
func (r *recovery) tooFull(ctx context.Context, view cluster.View, full []cluster.Member) error {
	for _, m := range full {
		if q := m.Status.EffectiveQuota(); q < leastQuota {
			return &fault.Error{Kind: fault.Refused, Cause: FindQuotaTiny, Op: "alarm recover", Subject: m.Label(),
				Msg:  fmt.Sprintf("its quota is %s, which no database fits in: --quota-backend-bytes counts bytes; the alarm is left as it is", binary(q)),
				Hint: "start it with the bytes that were meant, then: kvd alarm disarm"}
		}
	}
	learners, others := learnersHold(full, r.opts.TargetUsage)
	if len(others) == 0 {
		return &fault.Error{Kind: fault.Refused, Cause: causeLearnerFile, Op: "alarm recover", Subject: learners[0].Label(),
			Msg:  "a learner's file counts like a voter's, and the next write would raise the alarm again: " + learnersText(learners) + "; no request makes a learner give them back; the alarm is left as it is",
			Hint: learnerShrink(learners[0]) + "; then run this again"}
	}
	var said []string
	for _, m := range others {
		said = append(said, sizeNote(m))
	}
	if held := leaseContent(countLeases(ctx, r.client, others[0]), others[0].Status.DBInUse); held != nil && held.Bytes.Bytes >= mostly*float64(others[0].Status.DBInUse) {
		return &fault.Error{Kind: fault.Refused, Cause: FindLeases, Op: "alarm recover",
			Msg: "what is in use are leases: " + strings.Join(said, "; ") + "; most of it are " + held.text() + "; the alarm is left as it is", Hint: leasesHelp + "; then run this again"}
	}
	biggest := biggestOf(r.usage(ctx, view))
	hint := deleteHint(biggest) + ", or raise --quota-backend-bytes (8 GiB is the suggested maximum), then run this again"
	if n := quotasDiffer(view); n != "" {
		hint = n + "; or " + hint
	}
	msg := "what is in use is live data: " + strings.Join(said, "; ")
	if len(biggest) > 0 {
		msg += "; most of it is " + groupsText(biggest)
	}
	return &fault.Error{Kind: fault.Refused, Cause: "live_data", Op: "alarm recover", Msg: msg + "; the alarm is left as it is", Hint: hint}
}

// proveStep proves that a member takes writes again, and measures its headroom.
func (r *recovery) proveStep(m cluster.Member) plan.Step {
	return plan.Step{
		StepResult: plan.StepResult{Subject: m.Label(), Action: "prove: grant a lease, revoke it"},
		Do: func(ctx context.Context, res *plan.StepResult) error {
			began := time.Now()
			if err := proveWrite(ctx, r.client, "alarm recover", m); err != nil {
				if r.removed(ctx, m) {
					return plan.Skip(removedSince)
				}
				return err
			}
			took := time.Since(began)
			mc, err := r.client.Member(m.ID)
			if err != nil {
				return err
			}
			s, err := mc.Status(ctx)
			if err != nil {
				return err
			}
			s = s.QuotaLike(m.Status)
			res.Reason = fmt.Sprintf("taken in %s; headroom %s", took.Round(time.Millisecond), headroom(&s))
			return nil
		},
	}
}

// removed reports that a member has been removed since the plan was made.
func (r *recovery) removed(ctx context.Context, m cluster.Member) bool {
	view, err := r.view(ctx)
	_, found := view.MemberByID(m.ID)
	return err == nil && !found
}

func headroom(s *cluster.Status) string {
	q := s.EffectiveQuota()
	if q <= 0 {
		return "unbounded (no quota)"
	}
	return fmt.Sprintf("%s of %s", binary(q-s.DBSize), binary(q))
}

func nospace(view cluster.View) []cluster.Alarm {
	var out []cluster.Alarm
	for _, a := range view.Alarms {
		if a.Type == cluster.AlarmNoSpace {
			out = append(out, a)
		}
	}
	return out
}
