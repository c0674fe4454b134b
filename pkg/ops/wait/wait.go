// Package wait lets time pass in a way that can be called off. What waits for
// something that a test moves on by itself uses schedule.Clock instead.
package wait

import (
	"context"
	"time"
)

// For returns nil once d has passed, and ctx.Err() as soon as ctx has ended: also
// where it had ended before and d is zero or less, so that a loop which waits ends
// with its context however short its waits are.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
