package loadgen

import (
	"context"
	"sync/atomic"
	"testing"

	"kvd/pkg/ops/progress"
)

// A preparation that was ended has not made all that the load needs to find, also where
// no request of it failed.
func TestEachIsAllOrAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := &Env{sink: progress.Discard}
	var made atomic.Int64
	err := e.Each(ctx, 10_000, "making", func(context.Context, int) error {
		if made.Add(1) == 100 {
			cancel()
		}
		return nil
	})
	if n := made.Load(); err == nil || n == 10_000 {
		t.Errorf("%d were made: %v", n, err)
	}
	if err := e.Each(t.Context(), 3, "making", func(context.Context, int) error { return nil }); err != nil {
		t.Error(err)
	}
}
