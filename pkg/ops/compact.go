package ops

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/revclock"
	"kvd/pkg/ops/wait"
)

// rateWindow is for how long the write rate is measured where a margin in time
// has to become a number of revisions.
const rateWindow = 5 * time.Second

// CompactOptions says how to compact.
type CompactOptions struct {
	Goal     CompactGoal
	Step     int64         // at most this many revisions at once, 0: all at once
	Pause    time.Duration // between two steps
	Physical bool          // wait until the space is free inside the file
	Timeout  time.Duration // for one step's physical compaction on all members

	// Known tells which revision is old enough for Goal.For.
	Known func(now time.Time) revclock.Answer
	// Watch remembers from plan to plan who compacts; nil: nobody remembers.
	Watch *CompactWatch
}

// DefaultCompactOptions returns what `kvd compact` does when told nothing.
func DefaultCompactOptions() CompactOptions {
	return CompactOptions{Pause: time.Second, Physical: true, Timeout: 10 * time.Minute}
}

// check finds what cannot be meant by a compaction's steps.
func (o CompactOptions) check(op string) error {
	usage := func(msg string) error { return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Msg: msg} }
	switch {
	case o.Step < 0:
		return usage(fmt.Sprintf("--step %d: want a number of revisions, or 0 for all at once", o.Step))
	case o.Pause < 0:
		return usage(fmt.Sprintf("--pause %s: want 0 or more", o.Pause))
	case o.Timeout <= 0:
		return usage(fmt.Sprintf("--timeout %s: want more than 0, for example 10m", o.Timeout))
	}
	return nil
}

// compaction is one compaction being planned or run.
type compaction struct {
	client *cluster.Client
	opts   CompactOptions
	sink   progress.Sink
}

// PlanCompact looks at the cluster and plans a compaction. Nothing is sent that
// changes anything; where the goal names no revision and the cluster is not
// Kubernetes', it takes rateWindow to measure the write rate.
func PlanCompact(ctx context.Context, client *cluster.Client, view cluster.View, o CompactOptions, sink progress.Sink) (*plan.Plan, error) {
	c := &compaction{client: client, opts: o, sink: sink}
	if err := o.check("compact"); err != nil {
		return nil, err
	}
	if view.HasAlarm(cluster.AlarmCorrupt) {
		return nil, &fault.Error{Kind: fault.Refused, Cause: cluster.CauseCorrupt, Op: "compact",
			Msg:  "a CORRUPT alarm is raised, and etcd refuses compactions until it is cleared",
			Hint: "take a snapshot of a healthy member, replace the corrupt one, then disarm"}
	}
	if err := canCommit(view, "compact"); err != nil {
		return nil, err
	}
	if err := apartErr(ctx, client, view, "compact", "a member refuses to compact up to a revision that it does not have, and the history that tells them apart would be gone"); err != nil {
		return nil, err
	}
	facts, err := c.look(ctx, view)
	if err != nil {
		return nil, err
	}
	if facts.Rate, err = c.rate(ctx, facts); err != nil {
		return nil, err
	}
	t, err := o.Goal.choose(facts)
	if err != nil {
		return nil, err
	}
	if t, err = c.avoidRecreated(ctx, t, facts); err != nil {
		return nil, err
	}
	p := &plan.Plan{Op: "compact", Notes: append(notes(t, facts), o.Watch.look(time.Now(), facts)...)}
	if o.Watch == nil { // which says who compacts
		p.Notes = append(p.Notes, nobody(facts)...)
	}
	if t.Rev <= facts.Oldest {
		p.Steps = []plan.Step{alreadyCompacted(t, facts)}
		return p, nil
	}
	o.Watch.aim(t.Rev)
	p.Steps = c.steps(facts.Oldest, t.Rev)
	return p, nil
}

// look gathers what the choice of a revision rests on.
func (c *compaction) look(ctx context.Context, view cluster.View) (compactFacts, error) {
	f := compactFacts{NoSpace: view.HasAlarm(cluster.AlarmNoSpace)}
	for _, m := range view.Answered() {
		f.RaftIndex = max(f.RaftIndex, m.Status.RaftIndex)
	}
	quorum, err := c.client.Quorum(ctx)
	if err != nil {
		return f, err
	}
	// A linearizable read: it tells the newest revision there is, and fails
	// here, before anything was changed, where there is no quorum.
	marker, err := quorum.Get(ctx, keys.CompactRevKey)
	if err != nil {
		return f, err
	}
	f.Head = marker.Header.Revision
	if len(marker.Kvs) == 1 {
		f.KubeRev, _ = strconv.ParseInt(string(marker.Kvs[0].Value), 10, 64)
		f.KubeMod = marker.Kvs[0].ModRevision
	}
	if c.opts.Known != nil {
		f.Known = c.opts.Known(time.Now())
	}
	f.Oldest, err = keyspace.OldestRevision(ctx, quorum, f.Head)
	return f, err
}

// rate measures revisions per second, if the choice needs it.
func (c *compaction) rate(ctx context.Context, f compactFacts) (float64, error) {
	g := c.opts.Goal
	if g.To != 0 || g.Head || g.Keep > 0 || g.For > 0 || f.NoSpace || (f.KubeRev > f.Oldest && f.KubeRev <= f.Head) {
		return 0, nil
	}
	c.sink.Event(progress.Event{Op: "compact", Phase: "measuring the write rate", Total: int64(rateWindow.Seconds()), Unit: "seconds"})
	quorum, err := c.client.Quorum(ctx)
	if err != nil {
		return 0, err
	}
	return keyspace.MeasureWriteRate(ctx, quorum, rateWindow)
}

// steps go from the oldest revision to the target. One in between that ends where
// compacting would lose data is left to the next, which goes past it.
func (c *compaction) steps(oldest, to int64) []plan.Step {
	var out []plan.Step
	for _, rev := range stepsTo(oldest, to, c.opts.Step) {
		guard := func(ctx context.Context) error {
			err := c.guard(ctx, rev)
			if rev != to && fault.CauseOf(err) == causeRecreated {
				return plan.Skip(fault.Why(err) + "; the next step goes past it")
			}
			return err
		}
		out = append(out, c.step(rev, len(out) > 0, guard))
	}
	return out
}

// step is one compaction up to rev.
func (c *compaction) step(rev int64, later bool, guard func(context.Context) error) plan.Step {
	return plan.Step{
		StepResult:   plan.StepResult{Subject: "cluster", Action: fmt.Sprintf("compact to revision %d", rev)},
		AfterEarlier: later,
		Guard:        guard,
		Do: func(ctx context.Context, r *plan.StepResult) error {
			if later {
				waiting, cancel := plan.Waiting(ctx)
				defer cancel()
				if err := wait.For(waiting, c.opts.Pause); err != nil {
					return err
				}
			}
			return c.compactTo(ctx, rev, r)
		},
	}
}

// causeRecreated is the cause of a refusal: compacting there would lose data.
const causeRecreated = "recreated_key"

// guard refuses a revision in which a key was deleted and put again: compacting
// there would lose the fresh value.
func (c *compaction) guard(ctx context.Context, rev int64) error {
	quorum, err := c.client.Quorum(ctx)
	if err != nil {
		return err
	}
	keys, err := keyspace.RecreatedAt(ctx, quorum, rev, 1)
	if err != nil || len(keys) == 0 {
		return ignoreCompacted(err)
	}
	return &fault.Error{Kind: fault.Refused, Cause: causeRecreated, Op: "compact", Subject: fmt.Sprintf("to revision %d", rev),
		Msg: fmt.Sprintf("revision %d deletes and puts key %q at once; compacting at exactly it loses the fresh value "+
			"(etcd issue 22376, up to 3.7.3 at least)", rev, keys[0]),
		Hint: fmt.Sprintf("compact to %d or %d instead", rev-1, rev+1)}
}

// avoidRecreated moves a target that kvd chose itself off a revision at which
// compacting would lose data; one that the user named is refused by the guard.
func (c *compaction) avoidRecreated(ctx context.Context, t target, f compactFacts) (target, error) {
	if c.opts.Goal.To != 0 || t.Rev <= f.Oldest {
		return t, nil
	}
	quorum, err := c.client.Quorum(ctx)
	if err != nil {
		return t, err
	}
	for first := t.Rev; t.Rev > f.Oldest; t.Rev-- {
		keys, err := keyspace.RecreatedAt(ctx, quorum, t.Rev, 1)
		if err != nil {
			return t, ignoreCompacted(err)
		}
		if len(keys) == 0 {
			if t.Rev != first {
				t.Why += fmt.Sprintf("; moved from %d, where a key is deleted and put again in one revision, "+
					"which compacting exactly there would lose (etcd issue 22376)", first)
			}
			return t, nil
		}
	}
	return t, nil
}

// compactTo compacts, waits until every member has let go of the space, and
// measures what became free.
func (c *compaction) compactTo(ctx context.Context, rev int64, r *plan.StepResult) error {
	before, err := c.client.VotersView(ctx)
	if err != nil {
		return err
	}
	quorum, err := c.client.Quorum(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	if err := c.send(ctx, quorum, before, rev); err != nil {
		if fault.CauseOf(err) == cluster.CauseCompacted {
			return plan.Skip("compacted this far already")
		}
		return c.late(ctx, rev, err)
	}
	if !c.opts.Physical {
		r.Reason = "accepted; the space becomes free in the background"
		return nil
	}
	after, err := waitSettled(ctx, c.client, c.sink, "compact")
	if err != nil {
		return c.late(ctx, rev, err)
	}
	r.BeforeBytes, r.AfterBytes = plan.Bytes(largestInUse(before)), plan.Bytes(largestInUse(after))
	r.Reason = "bytes in use inside the file of the fullest member; the file itself shrinks only with defrag"
	return nil
}

// late is the error of a compaction whose time was up, and err where that is not why.
func (c *compaction) late(ctx context.Context, rev int64, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseDeadline, Op: "compact", Subject: fmt.Sprintf("to revision %d", rev),
		Msg:  fmt.Sprintf("not done on every member within %s; it may still take effect", c.opts.Timeout),
		Hint: "run the same again, which goes on from where it is then; for a long history compact in steps (--step), or give one more time (`kvd compact --timeout`)"}
}

// send compacts to rev. What that frees, a server before 3.5 counts only with its
// next write, which may never come (under NOSPACE it cannot); such a server is
// told in two steps, since a compaction is a write too.
func (c *compaction) send(ctx context.Context, quorum *cluster.QuorumClient, view cluster.View, rev int64) error {
	if c.opts.Physical && len(commitsOnRequest().without(view)) > 0 {
		if err := c.compactBelow(ctx, quorum, rev); err != nil {
			return err
		}
	}
	return quorum.Compact(ctx, rev, c.opts.Physical)
}

// compactBelow compacts to just below rev, where that loses nothing.
func (c *compaction) compactBelow(ctx context.Context, quorum *cluster.QuorumClient, rev int64) error {
	keys, err := keyspace.RecreatedAt(ctx, quorum, rev-1, 1)
	if err != nil || len(keys) > 0 {
		return ignoreCompacted(err)
	}
	if err := quorum.Compact(ctx, rev-1, true); err != nil {
		return ignoreCompacted(err)
	}
	return wait.For(ctx, settlePoll)
}

func alreadyCompacted(t target, f compactFacts) plan.Step {
	r := plan.StepResult{Subject: "cluster", Action: fmt.Sprintf("compact to revision %d", t.Rev), State: plan.Skipped,
		Reason: fmt.Sprintf("nothing to compact: the oldest revision kept is %d, the head is %d", f.Oldest, f.Head)}
	switch left := f.Head - f.Oldest; {
	case t.None:
		r.Action, r.Reason = "compact", t.Why
	case t.Margin && left > 0:
		r.Reason += fmt.Sprintf("; %d revisions are left in between, for whoever lists or watches from there (%s): where they are what fills the file, as `kvd quota` shows, `kvd compact --to head` frees them", left, t.Why)
	}
	return plan.Step{StepResult: r}
}

// notes says what the reader of a plan must know before saying yes.
func notes(t target, f compactFacts) []string {
	if t.None {
		return []string{fmt.Sprintf("revisions kept now: %d to %d; %s", f.Oldest, f.Head, t.Why)}
	}
	out := []string{fmt.Sprintf("revisions kept now: %d to %d; the target %d is %s", f.Oldest, f.Head, t.Rev, t.Why)}
	if t.Rev <= f.Oldest {
		return out
	}
	out = append(out, fmt.Sprintf("reads pinned below revision %d (paged lists), and watches that must reconnect from below it, "+
		"will get \"required revision has been compacted\"; watches that are open go on", t.Rev))
	if f.KubeRev > 0 {
		out = append(out, fmt.Sprintf("this is a Kubernetes cluster: kube-apiserver compacts every 5 minutes by itself "+
			"(compact_rev_key holds %d, last written %d revisions ago); clients that lose their place list again", f.KubeRev, f.Head-f.KubeMod))
	}
	return out
}

// nobody says that this once will not be enough. etcd's own compaction is off unless set,
// and of its clients kube-apiserver alone compacts.
func nobody(f compactFacts) []string {
	if f.KubeMod != 0 || f.Oldest > 1 {
		return nil
	}
	return []string{"nothing was compacted before, and no kube-apiserver does it here (there is no compact_rev_key): history fills the file again unless the members get --auto-compaction-retention, " +
		"or `kvd compact --schedule` runs; where they have it, its first round is yet to come"}
}

// ignoreCompacted drops the error of a look that came too late: what is
// compacted already cannot be compacted wrongly.
func ignoreCompacted(err error) error {
	if fault.CauseOf(err) == cluster.CauseCompacted {
		return nil
	}
	return err
}
