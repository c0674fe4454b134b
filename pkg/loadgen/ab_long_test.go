//go:build long

package loadgen_test

import (
	"slices"
	"testing"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
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
