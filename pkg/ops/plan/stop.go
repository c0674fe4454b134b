package plan

import (
	"context"
	"errors"

	"kvd/pkg/ops/fault"
)

// stopKey finds the stop of a run in the context of its steps.
type stopKey struct{}

// Waiting returns the context for the part of a step that changes nothing and only
// waits, as for somebody to start a member: a stop, which lets a step finish, ends
// it. The step then counts as interrupted. Call cancel when the wait is over.
func Waiting(ctx context.Context) (waiting context.Context, cancel context.CancelFunc) {
	waiting, cancel = context.WithCancel(ctx)
	stop, _ := ctx.Value(stopKey{}).(<-chan struct{})
	if stop == nil {
		return waiting, cancel
	}
	go func() {
		select {
		case <-stop:
			cancel()
		case <-waiting.Done():
		}
	}()
	return waiting, cancel
}

// endedWaiting reports that the error is that of a wait which a stop has ended.
func endedWaiting(ctx context.Context, err error) bool {
	stop, _ := ctx.Value(stopKey{}).(<-chan struct{})
	select {
	case <-stop:
		return errors.Is(err, context.Canceled) || fault.KindOf(err) == fault.Interrupted
	default:
		return false
	}
}
