package daemon_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/daemon"
	"kvd/pkg/ops/lead"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/schedule"
	"kvd/pkg/server/servertest"
)

// With endpoints of two clusters no tick comes to a plan, which would be for the one that
// happened to be chosen: each is refused and says so, as does the start.
func TestEndpointsOfTwoClustersAreRefused(t *testing.T) {
	t.Parallel()
	a, b := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	evening := time.Date(2026, 11, 1, 22, 0, 0, 0, time.UTC)
	clock := &nightClock{now: evening, end: evening.Add(7 * time.Minute), stop: make(chan struct{})}
	core, logs := observer.New(zap.InfoLevel)
	sched, err := schedule.Parse(schedule.Options{Expr: "*/2 * * * *", Timezone: "UTC"}, evening)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cluster.Connect(cluster.Config{Endpoints: []string{a.Endpoint(0), b.Endpoint(0)}, Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	err = daemon.Serve(t.Context(), clock.stop, daemon.Options{
		Op: "defrag", Schedule: sched, Client: client, Lead: lead.DefaultOptions("defrag"), Clock: clock, Log: zap.New(core, zap.WithClock(clock)),
		Plan: func(context.Context, cluster.View, progress.Sink) (*plan.Plan, error) {
			return nil, errors.New("planned for one of two clusters")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := logs.FilterField(zap.String("cause", cluster.CauseOtherCluster)).All()
	if ticks := logs.FilterField(zap.String("reason", "refused")).Len(); ticks < 3 || len(refused) != ticks+1 {
		t.Errorf("%d ticks refused, %d lines with the cause: %v", ticks, len(refused), logs.All())
	}
}
