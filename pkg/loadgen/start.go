package loadgen

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops/fault"
)

// checkStart refuses a time that has passed, before anything is made.
func checkStart(at time.Time) error {
	if ago := time.Since(at); !at.IsZero() && ago > 0 {
		return refused("start_passed", fmt.Sprintf("--start-at was %s ago", ago.Round(time.Second)), "give a later time; nothing was written")
	}
	return nil
}

// awaitStart waits until the run is to begin, so that several generators begin
// together.
func (r *runner) awaitStart(ctx context.Context, stop <-chan struct{}) error {
	at := r.opts.StartAt
	if at.IsZero() {
		return nil
	}
	wait := time.Until(at)
	if wait < 0 {
		return &fault.Error{Kind: fault.Partial, Cause: "start_passed", Op: "loadgen",
			Msg:  fmt.Sprintf("all was ready %s after --start-at", (-wait).Round(time.Millisecond)),
			Hint: "what the load needs to find is there now: give a later time"}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
	case <-stop:
	}
	return &fault.Error{Kind: fault.Interrupted, Op: "loadgen", Msg: "stopped before --start-at"}
}
