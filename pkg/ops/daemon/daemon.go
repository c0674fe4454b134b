// Package daemon runs a plan at the ticks of a schedule, for as long as it is
// let: one run at a time in the whole fleet, inside its window, with a fresh
// plan each time. A run that fails does not end it. What it does is seen in its
// log, its metrics and its health.
package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/lead"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/schedule"
)

// Options say what is run, when, and who is told.
type Options struct {
	Op       string // the operation: "defrag"
	Version  string // of kvd, for its metrics
	Schedule *schedule.Schedule
	Client   *cluster.Client
	// Plan makes a fresh plan. It is called by one goroutine at a time.
	Plan func(context.Context, cluster.View, progress.Sink) (*plan.Plan, error)
	Lead lead.Options
	// Listen is the address for /metrics and /healthz; empty: none.
	Listen string
	Log    *zap.Logger
	// Report is given the report of each run that had a plan; nil: nobody.
	Report func(plan.Report) error
	// Gauges are more values to serve: of what the plan rests on.
	Gauges []Gauge
	// Background runs beside the loop until ctx ends. May be nil.
	Background func(ctx context.Context)
	Clock      schedule.Clock // nil: the machine's
}

// Gauge is one value, read when it is asked for.
type Gauge struct {
	Name, Help string
	Value      func() float64
}

// daemon is one running Serve.
type daemon struct {
	o       Options
	m       *instruments
	health  *health
	elector *lead.Elector
	stop    <-chan struct{}
	cut     bool // ctx ended while a run was going
}

// Serve runs until stop is closed or ctx ends, and then returns nil. Closing
// stop lets the step in hand finish. Ending ctx does not: if that cuts a run
// short, the error is of kind Interrupted. Any other error is about the start: an
// address that can't be listened on, a plan that is wrong whatever the state of
// the cluster, credentials that are refused. A cluster that does not answer is no
// such error.
func Serve(ctx context.Context, stop <-chan struct{}, o Options) error {
	if o.Clock == nil {
		o.Clock = schedule.System{}
	}
	o.Lead.Sink = o.sink()
	d := &daemon{o: o, stop: stop, m: newInstruments(o), health: newHealth(o)}
	closeHTTP, err := d.listen(ctx)
	if err != nil {
		return err
	}
	defer closeHTTP()
	if err := d.first(ctx); err != nil {
		return err
	}
	d.elector = lead.Stand(o.Client, o.Lead)
	defer d.elector.Close(ctx) // whoever is not to wait ends ctx

	var side sync.WaitGroup
	sctx, cancel := context.WithCancel(ctx)
	defer side.Wait()
	defer cancel()
	if o.Background != nil {
		side.Go(func() { o.Background(sctx) })
	}
	d.notify(sctx, &side)
	o.Log.Info("waiting for ticks", zap.String("op", o.Op), zap.Stringer("schedule", o.Schedule))
	loop := &schedule.Loop{Schedule: o.Schedule, Observer: d, Run: d.run, Clock: o.Clock}
	loop.Serve(ctx, stop)
	if d.cut {
		return &fault.Error{Kind: fault.Interrupted, Op: o.Op, Msg: "left in the middle of a run",
			Hint: "a member that was being defragmented goes on until it is done"}
	}
	o.Log.Info("stopped as asked", zap.String("op", o.Op))
	return nil
}

// first logs the plan as of now: --schedule is the consent to run it, so it must
// be seen before the first run.
func (d *daemon) first(ctx context.Context) error {
	view, err := d.o.Client.View(ctx)
	var p *plan.Plan
	if err == nil {
		err = view.OneCluster(d.o.Op)
	}
	if err == nil {
		p, err = d.o.Plan(ctx, view, d.o.sink())
	}
	switch kind := fault.KindOf(err); {
	case err == nil:
		d.m.see(view)
		d.logPlan("plan as of now; a fresh one is made at each tick", p.Describe())
	case ctx.Err() != nil:
		return nil
	case kind == fault.Usage || kind == fault.Denied:
		return err
	default:
		d.o.Log.Warn("no plan can be made now; it is tried again at each tick", failure(err)...)
	}
	return nil
}

// Next implements schedule.Observer.
func (d *daemon) Next(at time.Time) {
	d.m.next.Set(stamp(at))
	d.health.setNext(at)
	if d.asked() {
		return
	}
	d.o.Log.Info("next run", zap.String("op", d.o.Op), zap.Time("at", at))
}

// Skipped implements schedule.Observer.
func (d *daemon) Skipped(why schedule.Reason, ticks int) {
	d.m.skipped.WithLabelValues(string(why)).Add(float64(ticks))
	level := zap.WarnLevel
	if why == schedule.Outside { // what the window is for
		level = zap.InfoLevel
	}
	d.o.Log.Log(level, "ticks without a run", zap.String("op", d.o.Op), zap.String("reason", string(why)), zap.Int("ticks", ticks))
}

// Alive implements schedule.Observer.
func (d *daemon) Alive(time.Time) {
	d.health.beat()
	if d.elector != nil {
		d.m.lead(d.elector.Leads())
		d.health.setLeads(d.elector.Leads())
	}
}

// asked reports whether a stop was asked for.
func (d *daemon) asked() bool {
	select {
	case <-d.stop:
		return true
	default:
		return false
	}
}

// errStop ends a wait because a stop was asked for.
var errStop = errors.New("stop was asked for")

// wait is a pause that ends early when the daemon is to stop.
func (d *daemon) wait(ctx context.Context, p time.Duration) error {
	passed, done := d.o.Clock.After(p)
	defer done()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stop:
		return errStop
	case <-passed:
		return nil
	}
}
