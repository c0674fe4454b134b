package drill

import (
	"cmp"
	"context"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// lookShare is how much of the load the two samples of kvd diagnose are apart. What it
// reads besides, which is after the second, is to come under load as well.
const lookShare = 0.6

// look is what kvd diagnose does while a load runs.
type look struct {
	said   *Said         // once done
	first  chan struct{} // closed when the first sample has been taken
	done   chan struct{} // closed when it has said what it says
	before bool          // the first sample is taken before the load
	say    func(sink progress.Sink) *Said
	wait   func() bool
}

func (s *painDrill) newLook(ctx context.Context) *look {
	apart := time.Duration(cmp.Or(s.p.Look, lookShare) * float64(s.o.Duration))
	if s.p.LookBefore {
		apart += s.o.Warmup
	}
	return &look{first: make(chan struct{}), done: make(chan struct{}), before: s.p.LookBefore,
		say:  func(sink progress.Sink) *Said { return s.say(ctx, apart, sink) },
		wait: func() bool { return wait.For(ctx, s.o.Warmup) == nil }}
}

// Event hears from diagnose.Collect that it waits for the second sample.
func (l *look) Event(e progress.Event) {
	if e.Phase == "waiting for the second sample" {
		close(l.first)
	}
}

// run looks, and says so. It outlives the load where it takes longer.
func (l *look) run(context.Context) {
	defer close(l.done)
	if l.before || l.wait() {
		l.said = l.say(l)
	}
}

// watched is a scenario that is looked at, and beside which something else is done from
// its first turn on.
type watched struct {
	loadgen.Scenario
	look   *look
	beside []func(load context.Context)
}

// Setup adds both to the cast; it waits for a first sample that is to be taken before
// the load.
func (w *watched) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	cast, err := w.Scenario.Setup(ctx, env)
	if err != nil {
		return cast, err
	}
	run := w.look.run
	if w.look.before {
		go w.look.run(ctx)
		select {
		case <-w.look.first:
		case <-w.look.done: // it could not look, and has said so
		}
		run = func(context.Context) { <-w.look.done }
	}
	for _, do := range append(w.beside, run) {
		cast.Background = append(cast.Background, loadgen.Beside{Run: func(load context.Context) error { do(load); return nil }})
	}
	return cast, nil
}
