package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kvd/pkg/ops/wait"
)

// TestFor: a wait takes its time, or ends with its context; one that has ended is
// told of even where there is nothing to wait for.
func TestFor(t *testing.T) {
	for name, c := range map[string]struct {
		wait, end time.Duration // the context ends after end; 0: never; negative: before
		took      time.Duration
		err       error
	}{
		"its time":               {wait: 3 * time.Second, took: 3 * time.Second},
		"no time":                {},
		"less than no time":      {wait: -time.Second},
		"ends while it waits":    {wait: time.Hour, end: 2 * time.Second, took: 2 * time.Second, err: context.Canceled},
		"ended before":           {wait: time.Hour, end: -1, err: context.Canceled},
		"ended before, no time":  {end: -1, err: context.Canceled},
		"ended before, negative": {wait: -time.Second, end: -1, err: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.end < 0 {
					cancel()
				} else if c.end > 0 {
					time.AfterFunc(c.end, cancel)
				}
				began := time.Now()
				err := wait.For(ctx, c.wait)
				if took := time.Since(began); took != c.took || !errors.Is(err, c.err) {
					t.Errorf("%v after %s, want %v after %s", err, took, c.err, c.took)
				}
			})
		})
	}
}
