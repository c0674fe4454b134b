package daemon_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/daemon"
	"kvd/pkg/ops/lead"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/schedule"
)

// nightClock advances by itself when it is waited for, and closes stop once it
// shows the end.
type nightClock struct {
	mu   sync.Mutex
	now  time.Time
	end  time.Time
	stop chan struct{}
}

func (c *nightClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *nightClock) After(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended := c.now.After(c.end)
	c.now = c.now.Add(d)
	if !ended && c.now.After(c.end) {
		close(c.stop)
	}
	ch := make(chan time.Time, 1)
	ch <- c.now
	return ch, func() {}
}

// NewTicker makes it a clock for logs too.
func (c *nightClock) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// TestAnOutageIsWaitedForInBounds: a run that is due while nobody answers is
// given up after minutes, at the end of its window, or at the next tick. It is
// not begun hours late, right after an outage.
func TestAnOutageIsWaitedForInBounds(t *testing.T) {
	t.Parallel()
	evening := time.Date(2026, 11, 1, 22, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name    string
		o       schedule.Options
		lasts   time.Duration // the whole scene
		skipped int
		waited  [2]time.Duration // at least, and at most, from the tick to where it is given up
	}{
		{"a night without a window", schedule.Options{Expr: "30 3 * * *"}, 36 * time.Hour, 2, [2]time.Duration{9 * time.Minute, 10 * time.Minute}},
		{"a window", schedule.Options{Expr: "30 3 * * *", Window: "01:00-05:00"}, 12 * time.Hour, 1, [2]time.Duration{89 * time.Minute, 90 * time.Minute}},
		{"a window that ends soon", schedule.Options{Expr: "58 4 * * *", Window: "01:00-05:00"}, 12 * time.Hour, 1, [2]time.Duration{time.Minute, 2 * time.Minute}},
		{"the next tick", schedule.Options{Expr: "*/2 * * * *"}, 13 * time.Minute, 5, [2]time.Duration{time.Minute, 2 * time.Minute}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.o.Timezone = "UTC"
			clock := &nightClock{now: evening, end: evening.Add(tc.lasts), stop: make(chan struct{})}
			core, logs := observer.New(zap.InfoLevel)
			sched, err := schedule.Parse(tc.o, evening)
			if err != nil {
				t.Fatal(err)
			}
			client, err := cluster.Connect(cluster.Config{Endpoints: []string{"http://127.0.0.1:1"}, Source: "test"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close() })
			err = daemon.Serve(t.Context(), clock.stop, daemon.Options{
				Op: "defrag", Schedule: sched, Client: client, Lead: lead.DefaultOptions("defrag"), Clock: clock,
				Log: zap.New(core, zap.WithClock(clock)),
				Plan: func(context.Context, cluster.View, progress.Sink) (*plan.Plan, error) {
					return nil, errors.New("planned without a cluster")
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			given := logs.FilterField(zap.String("reason", "unavailable")).All()
			if len(given) != tc.skipped {
				t.Errorf("%d ticks given up, want %d", len(given), tc.skipped)
			}
			for _, l := range given {
				if waited := l.Time.Sub(due(l)); waited < tc.waited[0] || waited > tc.waited[1] {
					t.Errorf("due at %s, given up %s later; want %s", due(l).Format("15:04:05"), waited, tc.waited)
				}
			}
		})
	}
}

// due returns the field of that name.
func due(l observer.LoggedEntry) time.Time {
	for _, f := range l.Context {
		if f.Key == "due" {
			enc := zapcore.NewMapObjectEncoder()
			f.AddTo(enc)
			at, _ := enc.Fields["due"].(time.Time)
			return at
		}
	}
	return time.Time{}
}
