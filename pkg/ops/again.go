package ops

import (
	"context"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// retryFor is how long a request is sent again while leadership moves or an answer
// does not come.
const retryFor = 30 * time.Second

// again sends a request, and once more while the cluster is between two leaders or an
// answer does not come: it must be one that does no more when it is sent twice. lost
// says that one may have taken effect without an answer. e is whom it is about.
func again(ctx context.Context, client *cluster.Client, sink progress.Sink, e progress.Event, send func() error) (lost bool, err error) {
	for limit := time.Now().Add(retryFor); ; {
		if err = send(); err == nil {
			return lost, nil
		}
		if ctx.Err() != nil {
			return lost, ctx.Err()
		}
		if !passing(err) || time.Now().After(limit) {
			return lost, err
		}
		lost = true
		e.Phase, e.Note = "waiting for the cluster", fault.Why(err)
		sink.Event(e)
		if err := pauseBetween(ctx, settlePoll); err != nil {
			return lost, err
		}
		if _, err := client.VotersView(ctx); err != nil && ctx.Err() != nil { // who can be asked now
			return lost, ctx.Err()
		}
	}
}

// pauseBetween waits between two requests, where a stop ends the step: each is a
// whole, and the next run goes on behind it.
func pauseBetween(ctx context.Context, d time.Duration) error {
	waiting, cancel := plan.Waiting(ctx)
	defer cancel()
	return wait.For(waiting, d)
}
