package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/lead"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/schedule"
)

// How long to wait before a lost connection is tried again, and at most.
const (
	backoffFirst = time.Second
	backoffMost  = 30 * time.Second
)

// patience is how long a tick waits for a cluster that does not answer, where no
// window says how late a run may begin. It outlasts the restart of a control
// plane; a run meant for the night is not begun at noon, when the cluster is
// just back from an outage.
const patience = 10 * time.Minute

// ready is what a run needs before it can begin.
type ready struct {
	turn    *lead.Turn
	plan    *plan.Plan
	members map[string]uint64 // label of a step's subject → ID
}

// run is one tick. Nothing that goes wrong here ends the daemon.
func (d *daemon) run(ctx context.Context, tick schedule.Tick) {
	d.health.running(true)
	defer d.health.running(false)
	log := d.o.Log.With(zap.String("op", d.o.Op), zap.Time("due", tick.Due))
	r, err := d.prepare(ctx, tick, log)
	if err != nil {
		d.notBegun(log, err)
		return
	}
	report, err := d.carryOut(ctx, tick, r)
	d.cut = ctx.Err() != nil
	d.m.observe(report, err)
	d.health.ran(report, err)
	d.logReport(log, report, err)
	if d.o.Report != nil {
		if werr := d.o.Report(report); werr != nil {
			log.Warn("the report could not be written", failure(werr)...)
		}
	}
}

// prepare takes the turn and makes the plan. Nothing has been changed yet, so
// what fails for want of a connection is tried again, for a while.
func (d *daemon) prepare(ctx context.Context, tick schedule.Tick, log *zap.Logger) (ready, error) {
	limit := d.latest(tick)
	for pause := backoffFirst; ; pause = min(2*pause, backoffMost) {
		r, err := d.attempt(ctx)
		if err == nil || fault.KindOf(err) != fault.Unavailable {
			return r, err
		}
		if d.o.Clock.Now().Add(pause).After(limit) {
			return r, err
		}
		d.m.retries.Inc()
		log.Warn("not reachable, trying again", append(failure(err), zap.Duration("in", pause))...)
		if werr := d.wait(ctx, pause); werr != nil {
			return r, errors.Join(err, werr)
		}
		if d.o.Clock.Now().After(limit) { // the machine slept meanwhile
			return r, err
		}
	}
}

// latest returns until when a tick may wait for the cluster: the end of its
// window, or as long as patience lasts, and never past the next tick.
func (d *daemon) latest(tick schedule.Tick) time.Time {
	limit := tick.Until
	if limit.IsZero() {
		limit = d.o.Clock.Now().Round(0).Add(patience)
	}
	if next := d.o.Schedule.Next(tick.Due); !next.IsZero() && next.Before(limit) {
		limit = next
	}
	return limit
}

func (d *daemon) attempt(ctx context.Context) (r ready, err error) {
	// A stop ends what has changed nothing yet at once.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	if r.turn, err = d.elector.Turn(ctx); err != nil {
		return r, err
	}
	view, err := d.o.Client.View(ctx)
	if err != nil {
		return r, err
	}
	d.m.see(view)
	r.members = map[string]uint64{}
	for _, m := range view.Members {
		r.members[m.Label()] = m.ID
	}
	if err = view.OneCluster(d.o.Op); err != nil {
		return r, err
	}
	r.plan, err = d.o.Plan(ctx, view, d.o.sink())
	return r, err
}

// Reasons for a tick without a run, beside those of the loop. The set is closed.
const (
	reasonOther       = lead.CauseOther
	reasonBusy        = lead.CauseBusy
	reasonUnavailable = "unavailable"
	reasonRefused     = "refused"
	reasonDenied      = "denied"
	reasonStopped     = "stopped"
	reasonFailed      = "failed"
)

// notBegun counts and logs a tick that came to no plan.
func (d *daemon) notBegun(log *zap.Logger, err error) {
	reason := reasonFailed
	cause := fault.CauseOf(err)
	switch kind := fault.KindOf(err); {
	case d.asked() || errors.Is(err, context.Canceled) || kind == fault.Interrupted:
		reason = reasonStopped
	case cause == lead.CauseOther || cause == lead.CauseBusy:
		reason = cause
	case kind == fault.Unavailable:
		reason = reasonUnavailable
	case kind == fault.Refused:
		reason = reasonRefused
		d.m.refused(cause)
	case kind == fault.Denied:
		reason = reasonDenied
	}
	d.m.idle(reason)
	d.health.skipped(reason, err)
	level := zap.WarnLevel
	if reason == reasonOther { // what standing by is
		level = zap.InfoLevel
	}
	log.Log(level, "skipped", append(failure(err), zap.String("reason", reason))...)
}

// carryOut runs the plan with two more guards before each step: the turn is
// still ours, and the window still open.
func (d *daemon) carryOut(ctx context.Context, tick schedule.Tick, r ready) (plan.Report, error) {
	if !r.plan.Pending() {
		return r.plan.Describe(), nil
	}
	for i := range r.plan.Steps {
		d.guard(&r.plan.Steps[i], tick, r)
	}
	r.turn.Begin(ctx)
	defer func() {
		ectx, cancel := context.WithTimeout(ctx, 5*time.Second) // who leaves at once writes nothing any more
		defer cancel()
		r.turn.End(ectx)
	}()
	return r.plan.Run(ctx, d.stop, d.o.sink())
}

// defragment is the action of a step that defragments its subject (pkg/ops).
const defragment = "defragment"

// guard puts the daemon's guard before and after a step's own, which may wait for
// minutes, and tells the turn what was done.
func (d *daemon) guard(s *plan.Step, tick schedule.Tick, r ready) {
	guard, do, subject := s.Guard, s.Do, s.Subject
	s.Guard = func(ctx context.Context) error {
		if err := d.may(ctx, tick, r.turn); err != nil || guard == nil {
			return err
		}
		if err := guard(ctx); err != nil {
			return err
		}
		return d.may(ctx, tick, r.turn)
	}
	s.Do = func(ctx context.Context, res *plan.StepResult) error {
		err := do(ctx, res)
		if id, ok := r.members[subject]; ok && err == nil && res.Action == defragment {
			r.turn.Did(id)
		}
		return err
	}
}

// causeWindow is the cause of a refusal: the window has ended, and work is left.
const causeWindow = "window_ended"

// may is asked before each step.
func (d *daemon) may(ctx context.Context, tick schedule.Tick, turn *lead.Turn) error {
	if d.asked() { // while a guard waited
		return plan.Skip("not begun: a stop was asked for")
	}
	if now := d.o.Clock.Now(); !tick.Until.IsZero() && !now.Before(tick.Until) {
		return &fault.Error{Kind: fault.Refused, Cause: causeWindow,
			Msg:  fmt.Sprintf("the window ended at %s: no further step is begun", tick.Until.Format("15:04 MST")),
			Hint: "the next run does the rest; if that repeats, make the window longer, or let --if choose fewer members"}
	}
	return turn.Check(ctx)
}

// name is how a member is called in metrics.
func name(m cluster.Member) string {
	if m.Name != "" {
		return m.Name
	}
	return cluster.FormatID(m.ID)
}
