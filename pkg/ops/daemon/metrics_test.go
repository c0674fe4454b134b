package daemon

import (
	"testing"

	dto "github.com/prometheus/client_model/go"

	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/schedule"
)

// A schedule that does not do its work says so, whatever the reason is; who stands
// by, or is stopped, does not.
func TestTicksWithoutSuccess(t *testing.T) {
	m := newInstruments(Options{Op: "defrag"})
	ran := func(o plan.Outcome) func() { return func() { m.observe(plan.Report{Outcome: o}, nil) } }
	skipped := func(why string) func() { return func() { m.idle(why) } }
	for i, step := range []struct {
		tick func()
		want float64
	}{
		{ran(plan.OutcomeFailed), 1},
		{ran(plan.OutcomePartial), 2},
		{skipped(reasonUnavailable), 3},
		{skipped(reasonDenied), 4},
		{skipped(reasonRefused), 5},
		{skipped(reasonBusy), 6},
		{skipped(reasonStopped), 6},
		{ran(plan.OutcomeInterrupted), 6},
		{ran(plan.OutcomeDone), 0},
		{skipped(reasonFailed), 1},
		{skipped(reasonOther), 0},
		{skipped(reasonFailed), 1},
		{ran(plan.OutcomeNothing), 0},
	} {
		step.tick()
		var got dto.Metric
		if err := m.unwell.Write(&got); err != nil || got.Gauge.GetValue() != step.want {
			t.Errorf("after step %d: %v, want %g, %v", i, got.Gauge, step.want, err)
		}
	}
	// Ticks outside the window, dropped and missed ones are counted by the loop.
	for _, why := range []schedule.Reason{schedule.Outside, schedule.Running, schedule.Missed} {
		if _, err := m.skipped.GetMetricWithLabelValues(string(why)); err != nil {
			t.Error(err)
		}
	}
}
