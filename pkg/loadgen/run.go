package loadgen

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// Run plays a scenario on a cluster: guard, setup, warm-up, measurement. It
// returns what was measured also where it was stopped before its end; an error
// without a result means that there was no load. stop ends the run early, and is
// no error; the end of ctx gives up what is under way as well. Errors are
// *fault.Error.
func Run(ctx context.Context, client *cluster.Client, s Scenario, o Options, stop <-chan struct{}, sink progress.Sink) (*result.Run, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := checkTarget(client.Config().Endpoints, o.TargetIsMine); err != nil {
		return nil, err // before anything is sent
	}
	if err := checkStart(o.StartAt); err != nil {
		return nil, err
	}
	view, err := client.View(ctx)
	if err != nil {
		return nil, err
	}
	if err := view.OneCluster("loadgen"); err != nil {
		return nil, err
	}
	if err := guard(ctx, client, view, o); err != nil {
		return nil, err
	}
	conns, err := newConnections(client, view, o)
	if err != nil {
		return nil, err
	}
	defer conns.close()
	requests, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	r := &runner{opts: o, sink: sink, stop: make(chan struct{}), requests: requests, giveUp: giveUp, rec: newRecorder()}
	r.env = &Env{
		Prefix: o.Prefix, Seed: o.Seed, Whole: o.Shard.whole(), Members: conns.membersOf(view), values: o.Values, scale: o.TimeScale, timeout: o.RequestTimeout,
		client: client, conns: conns, rec: r.rec, sink: sink, run: requests,
		onSpent: func() {
			if !closed(r.stop) {
				r.rec.event("quota_guard", "what was left to write has been written")
			}
			r.end(result.StoppedAtUsage)
		},
		onFull: func() {
			if o.StopAtNoSpace {
				r.end(result.StoppedFull)
			}
		},
	}
	r.env.room, r.env.bounded = roomIn(view, o)
	for _, counter := range s.Figures().Counters {
		r.env.Count(counter, 0) // what never happens is 0, and not unknown
	}
	began := time.Now()
	cast, err := setup(ctx, s, r.env, stop)
	if err != nil {
		return nil, err
	}
	cast = o.Shard.part(cast, o.APIServers)
	if err := conns.complete(o.Resources, stop); err != nil {
		return nil, err
	}
	if err := r.awaitStart(ctx, stop); err != nil {
		return nil, err
	}
	r.out = &result.Run{Header: result.Header{
		Format: result.Format, Scenario: s.Name(), Params: s.Params(), Prefix: o.Prefix, Seed: o.Seed,
		Schedule: Fingerprint(o, cast.Actors), Actors: len(cast.Actors),
		Connections: conns.count(), Policy: string(o.Policy), TimeScale: o.TimeScale, Options: o.header(),
		SetupSeconds: time.Since(began).Seconds(), Warmup: o.Warmup.Seconds(),
		Cluster: cluster.FormatID(view.ID), Members: r.env.Members, Expected: cast.Expected, Names: s.Figures(),
	}}
	scrape := newScraper(client, view, r.rec, o)
	defer scrape.close()
	if err := r.play(ctx, cast, scrape, stop); err != nil {
		return r.out, err
	}
	return r.out, nil
}

// setup makes what the load needs to find; stop ends that at once.
func setup(ctx context.Context, s Scenario, env *Env, stop <-chan struct{}) (Cast, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	cast, err := s.Setup(ctx, env)
	if env.wrote.Load() {
		err = leftBehind(err)
	}
	if err != nil && closed(stop) {
		err = &fault.Error{Kind: fault.Interrupted, Op: "loadgen", Msg: "stopped while making what the load needs to find", Hint: "`kvd loadgen clean` removes what was written"}
	}
	return cast, err
}

// leftBehind is a refusal that came after something had been made: an error of kind
// Refused says that nothing was changed.
func leftBehind(err error) error {
	var why *fault.Error
	if fault.KindOf(err) != fault.Refused || !errors.As(err, &why) {
		return err
	}
	left := *why
	left.Kind, left.Hint = fault.Partial, strings.TrimPrefix(left.Hint+"; `kvd loadgen clean` removes what was written", "; ")
	return &left
}

// runner is one run under way.
type runner struct {
	opts     Options
	env      *Env
	rec      *recorder
	sink     progress.Sink
	requests context.Context // of the requests: ends after the run
	giveUp   context.CancelFunc
	out      *result.Run

	stop     chan struct{} // closed when the run is to end before its time
	stopOnce sync.Once
	why      string

	cpuAt      time.Duration // at the beginning of the row
	cpuMeasure time.Duration // at the beginning of the measurement
}

// end ends the run before its time.
func (r *runner) end(why string) {
	r.stopOnce.Do(func() {
		r.why = why
		close(r.stop)
	})
}

// play runs warm-up and measurement, and waits for the last answers.
func (r *runner) play(ctx context.Context, cast Cast, scrape *scraper, stop <-chan struct{}) error {
	timeline := newTimeline(r.opts, cast.Actors)
	r.budget(scrape, scrape.scrape(ctx, false))

	begun := time.Now()
	d := newDispatcher(r.env, cast.Actors, r.opts, begun)
	r.out.StartedAt = begun.UTC()
	r.cpuAt = cpuTime()
	r.cpuMeasure = r.cpuAt
	r.rec.begin(begun, r.opts.Warmup)
	background := r.background(cast)

	played := make(chan struct{})
	go func() {
		defer close(played)
		d.play(ctx, r.requests, timeline, r.stop)
	}()
	r.follow(ctx, d, scrape, played, stop)
	ended := time.Now()

	drain, cancel := context.WithTimeout(ctx, r.opts.Drain)
	d.drain(drain, cast.behind)
	cancel()
	r.giveUp()
	d.close()
	err := background()
	last := r.row(context.WithoutCancel(ctx), d, scrape)
	r.finish(ended, scrape)
	r.out.Totals.Deserted = scrape.deserted(last)
	if r.why == "" && ctx.Err() != nil {
		r.out.Totals.Stopped = result.StoppedByHand
	}
	return err
}

// background starts what runs beside the actors and returns what waits for its
// end.
func (r *runner) background(cast Cast) func() error {
	var wg sync.WaitGroup
	errs := make([]error, len(cast.Background))
	for i, f := range cast.Background {
		wg.Go(func() {
			if err := f.Run(r.requests); err != nil && r.requests.Err() == nil {
				errs[i] = err
				r.end(result.StoppedFailed)
			}
		})
	}
	return func() error { wg.Wait(); return errors.Join(errs...) }
}

// follow makes a row of each second until the schedule has ended, or the run is
// stopped. Rows begin with the measurement: where the warm-up is no whole number of
// seconds, the first row is the rest of it.
func (r *runner) follow(ctx context.Context, d *dispatcher, scrape *scraper, played, stop <-chan struct{}) {
	next := d.begun.Add(r.opts.Warmup % time.Second)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for !next.After(time.Now()) { // one that was missed makes a longer row
			next = next.Add(time.Second)
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
			r.row(ctx, d, scrape)
		case <-stop:
			r.end(result.StoppedByHand)
			stop = nil // said once
		case <-played:
			return
		}
	}
}

// row closes a row, shows it and returns it.
func (r *runner) row(ctx context.Context, d *dispatcher, scrape *scraper) result.Row {
	now := time.Now()
	row := r.rec.closeRow(now)
	row.Waiting, row.Memory = d.inFlight.Load(), ownMemory()
	used := cpuTime()
	row.CPU = share(used-r.cpuAt, time.Duration(row.Span*float64(time.Second)))
	r.cpuAt = used
	if row.Warmup {
		r.cpuMeasure = used
	}
	row.Members = scrape.scrape(ctx, !row.Warmup)
	r.out.Rows = result.AppendRow(r.out.Rows, row)
	if name, at := scrape.usage(row.Members); r.opts.StopAtUsage > 0 && at >= r.opts.StopAtUsage && !closed(r.stop) {
		r.rec.event("quota_guard", fmt.Sprintf("%s is at %.0f %% of its quota", name, 100*at))
		r.end(result.StoppedAtUsage)
	}
	r.budget(scrape, row.Members)
	r.sink.Event(r.liveLine(row))
	return row
}

// budget says what may be written until the next row, since a quota can be filled
// between two.
func (r *runner) budget(scrape *scraper, rows []result.MemberRow) {
	if r.opts.StopAtUsage <= 0 || closed(r.stop) { // what still waits then is not to be written
		return
	}
	if n, bounded := scrape.left(rows, r.opts.StopAtUsage); bounded {
		r.env.budget.Store(&budget{left: n})
	}
}

func share(used, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return used.Seconds() / of.Seconds() / float64(processors())
}

// finish adds everything up.
func (r *runner) finish(ended time.Time, scrape *scraper) {
	t := &r.out.Totals
	measured := max(0, ended.Sub(r.rec.measureFrom))
	if r.opts.Duration > 0 {
		measured = min(measured, r.opts.Duration) // what came due later was not played, however late this process woke up
	}
	t.Measured = measured.Seconds()
	t.Stopped = r.why
	r.out.Events = r.rec.finish(t)
	t.Servers = scrape.totals()
	scrape.quotas(r.out.Members)
	t.CPU = share(r.cpuAt-r.cpuMeasure, ended.Sub(r.rec.measureFrom))
	t.Memory = ownMemory()
	t.Limits = r.opts.Limits.exceeded(t)
}

// lagShare is which part of the response time the generator's own lag may be, where
// it is over its limit.
const lagShare = 4

// exceeded says which limits of the generator were exceeded.
func (l Limits) exceeded(t *result.Totals) []string {
	var out []string
	if l.CPU > 0 && t.CPU > l.CPU {
		out = append(out, fmt.Sprintf("the generator used %.0f %% of its processors (limit %.0f %%)", 100*t.CPU, 100*l.CPU))
	}
	if lag, whole := t.Lag.Quantile(0.99), t.Responses().Quantile(0.99); l.Lag > 0 && lag > l.Lag && lag > whole/lagShare {
		out = append(out, fmt.Sprintf("one turn in a hundred began %s or more after it was due, for want of processor time (limit %s), and one response in a hundred took %s",
			lag.Round(100*time.Microsecond), l.Lag, whole.Round(100*time.Microsecond)))
	}
	if offered := float64(t.Due-t.Dropped) / float64(max(t.Due, 1)); t.Due > 0 && offered < l.Offered {
		out = append(out, fmt.Sprintf("%d of %d turns were left out, since too many were waiting already: %.1f %% was offered (limit %.0f %%)", t.Dropped, t.Due, 100*offered, 100*l.Offered))
	}
	return out
}

// ownMemory is what the Go runtime has of the system, in bytes.
func ownMemory() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}
