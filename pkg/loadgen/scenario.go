package loadgen

import (
	"context"
	"slices"
	"time"

	"kvd/pkg/loadgen/result"
)

// Scenario is a load. A value serves one run.
type Scenario interface {
	// Name is that of the command: "k8s-heartbeats".
	Name() string
	// Params is what the scenario was set to, for the result.
	Params() map[string]any
	// Figures is what can be measured of it, as it is set. Its counters begin at 0.
	Figures() result.Names
	// Setup has made what the load needs to find there, and returns who acts. It
	// may find what an earlier run left under the same prefix, and goes on from
	// that. Its errors are *fault.Error.
	Setup(ctx context.Context, env *Env) (Cast, error)
}

// Cast is who acts in a scenario.
type Cast struct {
	Actors []Actor
	// Background runs beside the actors from before the first turn until the run
	// ends, which ends ctx: informers, mostly. It records what it sees with
	// Env.Observe. An error other than the end of ctx ends the run.
	Background []Beside
	// Expected is how often what should be sent, by a model that the actors were not
	// made from; none where there is no such model.
	Expected []result.Expected
}

// behind reports that somebody waits for something still.
func (c Cast) behind() bool {
	return slices.ContainsFunc(c.Background, func(b Beside) bool { return b.Behind != nil && b.Behind() })
}

// Beside is something that goes on beside the actors.
type Beside struct {
	APIServer int // whose it is, as an Actor's
	Run       func(ctx context.Context) error
	// Behind reports that something that is due to it has not come. At its end the run
	// waits for that as it does for answers. nil: nothing ever is.
	Behind func() bool
}

// Actor is one who acts again and again: a kubelet that renews its Lease, a
// controller, a client that lists. Its turns are taken one after the other, as
// the revision that the next write is conditional on comes with the answer to
// the last: a turn that is due while the one before is under way waits for it,
// and its response time contains that.
type Actor struct {
	// Name tells it from all others. Its phase and jitter follow from it.
	Name string
	// Schedule is when it acts.
	Schedule Schedule
	// APIServer is through whose connections it acts, counted from 0 and taken
	// modulo their number.
	APIServer int
	// Act takes one turn: any number of requests, all through Turn, one after the
	// other. It must return soon after ctx ended.
	Act func(ctx context.Context, t *Turn)
}

// Schedule is when an actor acts. Periods are those of real time: the engine
// divides them by Options.TimeScale.
type Schedule struct {
	// Period is the shortest time from one turn to the next. 0: a single turn.
	Period time.Duration
	// Jitter makes each interval longer by a random share of the period, from 0 to
	// this. Kubernetes' wait.JitterUntil does the same.
	Jitter float64
	// Delay is when the schedule begins, from the start of the run. The first turn
	// comes a random share of the period later, so that actors of the same
	// period are spread over it.
	Delay time.Duration
	// Together leaves that share out: all begin at the same moment, as after a
	// restart.
	Together bool
	// Sliding says that in Kubernetes the period begins with the answer to the turn
	// before (wait.JitterUntil's sliding). It is so here under the arrival Kubelet.
	Sliding bool
	// Turns ends the schedule after so many; 0: with the run.
	Turns int64
}
