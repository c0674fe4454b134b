package k8s_test

import (
	"context"
	"testing"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A cluster that is gone at the end is no good end, also where nobody asked for an
// objective; one that lost a member of three and goes on is.
func TestAClusterThatDoesNotOutliveTheLoad(t *testing.T) {
	t.Parallel()
	for members, want := range map[int]fault.Kind{1: fault.Unavailable, 3: ""} {
		s := newStage(t, local.Options{Members: members})
		o := s.options()
		o.Duration, o.RequestTimeout, o.Drain = 5*time.Second, 2*time.Second, 3*time.Second
		defer time.AfterFunc(1500*time.Millisecond, func() { s.Kill(0) }).Stop()
		r := s.play(t, heartbeats(20, 200*time.Millisecond), o)
		err := result.Err(r, nil)
		if want != "" && fault.KindOf(err) != want || want == "" && err != nil {
			t.Errorf("%d members: %v (%q)", members, err, r.Totals.Deserted)
		}
		if broken := result.Err(r, result.Judge(r, []result.Objective{{Metric: "errors", Relation: "==", Bound: 0}})); fault.KindOf(broken) != fault.Wanting {
			t.Errorf("%d members, and errors==0: %v", members, broken)
		}
	}
}

// pausing stops a member once the load is being made.
type pausing struct {
	loadgen.Scenario
	pause func() error
}

func (p pausing) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := p.pause(); err != nil {
		return loadgen.Cast{}, err
	}
	return p.Scenario.Setup(ctx, env)
}

// What the load needs to find is not waited for without end either.
func TestSetupDoesNotWaitForAMemberThatHangs(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{})
	o := s.options()
	o.RequestTimeout = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := loadgen.Run(ctx, s.client, pausing{heartbeats(20, time.Second), func() error { return s.Pause(0) }}, o, nil, progress.Discard)
	if r != nil || fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != cluster.CauseNoAnswer || ctx.Err() != nil {
		t.Errorf("%v, %v", r, err)
	}
}

// A member that ends during a run of an A/B comparison ends the comparison: its
// figures are not of the variant.
func TestABWithAMemberThatEnds(t *testing.T) {
	t.Parallel()
	arm := loadgen.Arm{Name: "A", Members: 1, Options: loadgen.DefaultOptions(), Scenario: func() loadgen.Scenario { return heartbeats(10, 200*time.Millisecond) }}
	arm.Options.Warmup, arm.Options.Duration, arm.Options.RequestTimeout, arm.Options.Drain = 0, 8*time.Second, time.Second, time.Second
	arm.Options.Limits.Lag = time.Minute
	command := local.Command{Path: "timeout", Args: []string{"-s", "KILL", "5", servertest.Binary(t), "serve", "--unsafe-no-fsync"}}
	_, err := loadgen.AB(t.Context(), [2]loadgen.Arm{arm, arm}, loadgen.ABOptions{Repeats: 2, Command: command}, nil, progress.Discard)
	if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != "exited" {
		t.Errorf("%v", err)
	}
}
