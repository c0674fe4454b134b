//go:build long

package loadgen_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Two variants in turns, each run on a cluster of its own: what they write differs
// by as much as their objects do, and nothing else is shown to.
func TestAB(t *testing.T) {
	o := loadgen.DefaultOptions()
	o.Warmup, o.Duration, o.Limits.Lag = 0, 3*time.Second, time.Minute
	arm := func(name, mode string) loadgen.Arm {
		return loadgen.Arm{Name: name, Options: o, Members: 1, Scenario: func() loadgen.Scenario {
			h := k8s.DefaultHeartbeatOptions()
			h.Nodes, h.Period, h.Mode = 40, time.Second, mode
			return &k8s.Heartbeats{HeartbeatOptions: h}
		}}
	}
	var order []string
	sink := progress.Func(func(e progress.Event) {
		if len(e.Phase) > 5 && e.Phase[:4] == "run " {
			order = append(order, e.Phase[len(e.Phase)-1:])
		}
	})
	runs, err := loadgen.AB(t.Context(), [2]loadgen.Arm{arm("A", k8s.ModeStatus), arm("B", k8s.ModeLease)},
		loadgen.ABOptions{Repeats: 3, Command: local.Command{Path: servertest.Binary(t), Args: []string{"serve"}}}, nil, sink)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"A", "B", "B", "A", "A", "B"}; !slices.Equal(order, want) {
		t.Errorf("in the order %v, want %v", order, want)
	}
	c, err := result.Compare(runs[0], runs[1])
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range c.Figures {
		t.Logf("%-45s %12.4g %12.4g %s", f.Name, f.A, f.B, f.Verdict)
		seen[f.Name+": "+f.Verdict] = true
	}
	for _, want := range []string{"written by the load: " + result.Less, "bytes to the log: " + result.Less} {
		if !seen[want] {
			t.Errorf("not said: %s", want)
		}
	}
}

// A member that ends in the middle of a run ends the comparison: what is left of the run
// is not set against the others.
func TestABEndsWithItsServer(t *testing.T) {
	o := loadgen.DefaultOptions()
	o.Warmup, o.Duration, o.Limits.Lag, o.RequestTimeout = 0, 8*time.Second, time.Minute, time.Second
	arm := loadgen.Arm{Name: "A", Options: o, Members: 1, Scenario: func() loadgen.Scenario {
		h := k8s.DefaultHeartbeatOptions()
		h.Nodes, h.Period = 40, time.Second
		return &k8s.Heartbeats{HeartbeatOptions: h}
	}}
	runs, err := loadgen.AB(t.Context(), [2]loadgen.Arm{arm, arm}, loadgen.ABOptions{Repeats: 2,
		Command: local.Command{Path: "timeout", Args: []string{"-s", "KILL", "5", servertest.Binary(t), "serve"}}}, nil, progress.Discard)
	if fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != "exited" || !strings.Contains(fmt.Sprint(err), "m1") {
		t.Errorf("%v", err)
	}
	if len(runs[0]) != 1 || len(runs[1]) != 0 {
		t.Errorf("%d and %d runs", len(runs[0]), len(runs[1]))
	}
}
