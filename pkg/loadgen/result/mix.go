package result

import (
	"fmt"
	"math"
	"slices"
)

// Expected is how often a load should ask for something: by the model it was made
// after, not by its schedule.
type Expected struct {
	Name string   `json:"name"`          // "txn leases", "reads"
	Rate float64  `json:"per_second"`    // before the time scale
	Ops  []string `json:"ops,omitempty"` // what it is made of, as an Op's name or RPC; none: Name
	// Cycle is how long, in seconds before the time scale, what is sent goes up and down
	// for; a measurement of less than twenty of them is not judged.
	Cycle float64 `json:"cycle_seconds,omitempty"`
}

// Mixed is an expectation and what was sent.
type Mixed struct {
	Name  string  `json:"name"`
	Model float64 `json:"model_per_second"` // time-scaled, as the other is
	Sent  float64 `json:"per_second"`
	Off   bool    `json:"off,omitempty"`
}

// When what was sent is not the mix it should be: 5 % from the model, and by more
// than chance would have it in so short a run.
const (
	mixTolerance  = 0.05
	mixDeviations = 4 // standard deviations of a count
	mixCycles     = 20
)

// Mix holds what was sent against the model, of a scenario that has one.
func Mix(r *Run) []Mixed {
	out := make([]Mixed, 0, len(r.Expected))
	for _, e := range r.Expected {
		n := float64(r.Count(e.has))
		want := e.Rate * r.TimeScale * r.Totals.Measured
		long := r.Totals.Measured*r.TimeScale >= mixCycles*e.Cycle
		off := long && math.Abs(n-want)/max(want, 1e-9) > mixTolerance && math.Abs(n-want) > mixDeviations*math.Sqrt(want)
		seconds := max(r.Totals.Measured, 1e-9)
		out = append(out, Mixed{e.Name, want / seconds, n / seconds, off})
	}
	return out
}

func (e Expected) has(op Op) bool {
	if len(e.Ops) == 0 {
		return op.Name() == e.Name
	}
	return slices.Contains(e.Ops, op.Name()) || slices.Contains(e.Ops, op.RPC)
}

// wrongMix says what of the mix is off, "" where nothing is or where it was not
// carried out: turns left out, requests that failed or that nobody waited for.
func (r *Run) wrongMix() string {
	if r.Totals.Dropped > 0 || r.Totals.Stopped != "" || r.Count(func(op Op) bool { return !op.Done() }) > 0 {
		return ""
	}
	for _, m := range Mix(r) {
		if m.Off {
			return fmt.Sprintf("%.2f %s a second were sent, and the model of such a cluster has %.2f", m.Sent, m.Name, m.Model)
		}
	}
	return ""
}
