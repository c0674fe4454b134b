package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// removedSince is why a step is not needed whose member was removed from the
// cluster after the plan was made.
const removedSince = "is not in the member list any more"

// memberStep defragments one member.
func (d *defragmentation) memberStep(m cluster.Member, later bool) plan.Step {
	s := plan.Step{StepResult: predicted(m, plan.Planned, "")}
	if d.late {
		s.StepResult = predictedLate(m)
	} else if m.Status != nil {
		s.Reason = fmt.Sprintf("predicted gain %s, %.0f %% of the file", binary(gainOf(m.Status)), percent(gainOf(m.Status), m.Status.DBSize))
	}
	var view cluster.View
	s.Guard = func(ctx context.Context) (err error) {
		if view, err = d.guard(ctx, m); err != nil {
			return err
		}
		if view, err = d.judgeLate(ctx, view, m.ID); err != nil {
			return err
		}
		if _, ok := view.MemberByID(m.ID); !ok { // somebody removed it since the plan was made
			delete(d.todo, m.ID)
			return plan.Skip(removedSince)
		}
		return d.roomForCopy(view, m)
	}
	// The leader's own turn comes after the leadership was moved.
	s.AfterEarlier = later && m.Status != nil && m.Status.Leader == m.ID
	s.Do = func(ctx context.Context, r *plan.StepResult) error {
		fresh, _ := view.MemberByID(m.ID)
		return d.member(ctx, view, fresh, r)
	}
	return s
}

func percent(part, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}

// member defragments one member, whatever it takes to learn how that ended, and
// measures what came of it.
func (d *defragmentation) member(ctx context.Context, view cluster.View, m cluster.Member, r *plan.StepResult) error {
	if err := d.handOver(ctx, view, m); err != nil {
		return err
	}
	r.BeforeBytes, r.AfterBytes, r.Reason = plan.Bytes(m.Status.DBSize), nil, ""
	if err := d.hooks.before(ctx, m, *m.Status); err != nil {
		delete(d.todo, m.ID)
		return plan.PassOver(&fault.Error{Kind: fault.Refused, Cause: "before_member", Op: "defrag", Subject: m.Label(), Err: err,
			Hint: "the member was not defragmented: mend the command, or leave the member out with --member or --if"})
	}
	if len(d.hooks.beforeArgv) > 0 { // which may have taken its time
		if err := d.lookAgain(ctx, m); err != nil {
			return err
		}
	}
	d.dist = m.ID
	how, err := d.defragment(ctx, m)
	d.last = time.Now()
	if err != nil {
		return d.failed(ctx, m, r, err)
	}
	after, err := d.measure(ctx, m)
	if err != nil {
		return &fault.Error{Kind: fault.Partial, Cause: "not_measured", Op: "defrag", Subject: m.Label(),
			Msg: "done, but the member does not tell its new size", Err: err, Hint: fault.HintOf(err)}
	}
	delete(d.todo, m.ID)
	r.AfterBytes = plan.Bytes(after.DBSize)
	r.Reason = outcome(m.Status, &after, how)
	if len(d.hooks.afterArgv) > 0 { // which may well send clients to it again
		if err := d.catchUp(ctx, 0); err != nil {
			return err
		}
	}
	if err := d.hooks.after(ctx, m, *m.Status, after); err != nil {
		return &fault.Error{Kind: fault.Partial, Cause: "after_member", Op: "defrag", Subject: m.Label(),
			Msg: "defragmented, but the --after-member command failed", Err: err,
			Hint: "no further member was touched: do by hand what the command was to do for this one, then run the same again"}
	}
	return nil
}

// outcome compares what was promised with what was measured.
func outcome(before *cluster.Status, after *cluster.Status, how string) string {
	gained := before.DBSize - after.DBSize
	text := fmt.Sprintf("gained %s, predicted %s", binary(gained), binary(gainOf(before)))
	if gained < 0 {
		text = fmt.Sprintf("grew by %s", binary(-gained))
	}
	if how != "" {
		text += "; " + how
	}
	return text
}

// defragTimeout is how long to wait for the member's own answer before its
// metrics are asked instead: 30 s and 1 s for every 10 MiB in use. The copy costs
// what is in use; a laptop's disk was measured at some 110 MiB/s, a slow one has
// a tenth of that.
func defragTimeout(inUse int64) time.Duration {
	return 30*time.Second + time.Duration(inUse/(10<<20))*time.Second
}

// defragment asks the member to defragment and returns when that has ended.
// How says what there is to say about the way.
func (d *defragmentation) defragment(ctx context.Context, m cluster.Member) (how string, err error) {
	before, _ := d.c.Metrics(ctx, m)
	timeout := d.opts.Timeout
	if timeout <= 0 {
		timeout = defragTimeout(m.Status.DBInUse)
	}
	rctx, cancel := context.WithTimeout(ctx, timeout)
	stop := d.tick(rctx, m)
	began := time.Now()
	err = d.c.Defragment(rctx, m.ID)
	cancel()
	stop()
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", &fault.Error{Kind: fault.Interrupted, Op: "defrag", Subject: m.Label(),
			Msg: "interrupted; the member goes on until it is done, which can't be stopped"}
	case !uncertain(err):
		return "", err
	}
	// A member that dies or hangs is given up long before the timeout: the
	// connection breaks, and nobody knows whether it has begun.
	waited := time.Since(began)
	note, how := "the member may be defragmenting (it can't be cancelled), following it", fmt.Sprintf("lost its connection after %s", waited.Round(10*time.Millisecond))
	if waited >= timeout {
		note, how = "the member goes on defragmenting (it can't be cancelled), following it", fmt.Sprintf("did not answer within %s", timeout)
	}
	d.sink.Event(progress.Event{Op: "defrag", Subject: m.Label(), Phase: "waiting for the server", Warning: true, Note: how + ": " + fault.Why(err) + "; " + note})
	f := follower{d: d, m: m, before: before, began: time.Now(), asked: err}
	took, err := f.wait(ctx)
	if err != nil {
		return "", err
	}
	how += " and was followed until its own end"
	if took > 0 {
		how += fmt.Sprintf(", which took it %s", took.Round(10*time.Millisecond))
	}
	return how, nil
}

// uncertain reports that an error does not tell whether the member got the
// request, or what became of it.
func uncertain(err error) bool {
	switch fault.CauseOf(err) {
	case cluster.CauseDeadline, cluster.CauseConnectionLost, cluster.CauseNoAnswer, cluster.CauseRequestTimedOut, cluster.CauseConnectionRefused,
		cluster.CauseUnreachable, cluster.CauseStopped, cluster.CauseStarting, cluster.CauseCanceled:
		return true
	}
	return false
}

// tick reports how long the member has been at it until the returned function is
// called.
func (d *defragmentation) tick(ctx context.Context, m cluster.Member) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-t.C:
				d.sink.Event(progress.Event{Op: "defrag", Subject: m.Label(), Phase: "defragmenting", Done: int64(time.Since(began).Seconds()), Unit: "seconds"})
			}
		}
	}()
	return func() { close(done); <-ended }
}

// measureTries and measurePause: a member's sizes are refreshed when it commits,
// every 100 ms; one that has just been stalled may miss a first question.
const (
	measureTries = 10
	measurePause = 300 * time.Millisecond
)

// measure asks for the size after the commit that follows a defragmentation.
func (d *defragmentation) measure(ctx context.Context, m cluster.Member) (s cluster.Status, err error) {
	for range measureTries {
		if werr := wait.For(ctx, measurePause); werr != nil {
			return s, werr
		}
		if s, err = d.c.Status(ctx, m.ID); err == nil {
			return s, nil
		}
	}
	return s, err
}

// failed says what a failed defragmentation left behind: etcd keeps the file it
// had, and, though it means not to, the half copy too.
func (d *defragmentation) failed(ctx context.Context, m cluster.Member, r *plan.StepResult, cause error) error {
	if fault.KindOf(cause) == fault.Interrupted || fault.CauseOf(cause) == causeDefragUnknown {
		return cause
	}
	e := &fault.Error{Kind: fault.KindOf(cause), Cause: fault.CauseOf(cause), Op: "defrag", Subject: m.Label(), Err: cause, Hint: fault.HintOf(cause)}
	if diskFull(cause) { // the member's, which is no defect of kvd
		e.Kind, e.Cause = fault.Unavailable, "disk_full"
	}
	var already *fault.Error
	if errors.As(cause, &already) {
		e.Err = already.Err
		e.Msg = already.Msg
	}
	s, err := d.measure(ctx, m)
	switch {
	case err != nil:
		e.Msg = join(e.Msg, "failed, and the member does not answer its status now")
	case s.DBSize >= m.Status.DBSize:
		r.AfterBytes = plan.Bytes(s.DBSize)
		e.Msg = join(e.Msg, fmt.Sprintf("failed; the member kept its file, unchanged at %s, and serves", binary(s.DBSize)))
		if e.Kind != fault.Denied {
			e.Hint = d.halfCopy(m, cause)
		}
	default:
		r.AfterBytes = plan.Bytes(s.DBSize)
		e.Msg = join(e.Msg, fmt.Sprintf("failed, though the file is %s now and was %s", binary(s.DBSize), binary(m.Status.DBSize)))
	}
	return e
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// inflight reads whether a member defragments, and how many it has completed.
func inflight(s *metrics.Sample) (running bool, completed uint64) {
	n, _ := s.Value(metrics.DefragInflight, nil)
	h, _ := s.Histogram(metrics.DefragDuration, nil)
	return n > 0, h.Count
}
