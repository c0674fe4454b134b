package drill

import (
	"context"
	"slices"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/wait"
)

// Gauge is what one member's metric said while a load was measured.
type Gauge struct {
	Member string  `json:"member"`
	Metric string  `json:"metric"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Middle float64 `json:"middle"` // half of the looks saw more: one at a bad moment does not change it
	Peak   float64 `json:"peak"`
	Looks  int     `json:"looks"`
}

// gaugeInterval is from one look to the next.
const gaugeInterval = 500 * time.Millisecond

// gauges looks at metrics of all members until ctx ends. A member that does not
// answer is not in it for as long.
func (s *painDrill) gauges(ctx context.Context, names []string) []Gauge {
	values := make([][]float64, s.cluster.Len()*len(names))
	for {
		for i := range s.cluster.Len() {
			sample, err := metrics.Fetch(ctx, s.client.HTTPClient(), s.cluster.MetricsURL(i))
			if err != nil {
				continue
			}
			for k, name := range names {
				if v, ok := sample.Value(name, nil); ok {
					values[i*len(names)+k] = append(values[i*len(names)+k], v)
				}
			}
		}
		if wait.For(ctx, gaugeInterval) != nil {
			break
		}
	}
	var out []Gauge
	for i := range s.cluster.Len() {
		for k, name := range names {
			if seen := values[i*len(names)+k]; len(seen) > 0 {
				out = append(out, gaugeOf(s.cluster.Name(i), name, seen))
			}
		}
	}
	return out
}

func gaugeOf(member, metric string, seen []float64) Gauge {
	g := Gauge{Member: member, Metric: metric, Before: seen[0], After: seen[len(seen)-1], Looks: len(seen)}
	slices.Sort(seen)
	g.Middle, g.Peak = seen[len(seen)/2], seen[len(seen)-1]
	return g
}

// gauge is the largest that the members say of a metric.
func (r PainRun) gauge(metric string, of func(Gauge) float64) float64 {
	n := 0.0
	for _, g := range r.Gauges {
		if g.Metric == metric {
			n = max(n, of(g))
		}
	}
	return n
}

// How a metric is read.
func middle(g Gauge) float64 { return g.Middle }
func peak(g Gauge) float64   { return g.Peak }
func risen(g Gauge) float64  { return g.After - g.Before }

// gaugeFigure sets what the members' metric said in both runs against each other.
func gaugeFigure(what string, unit diagnose.Unit, metric string, pain, remedied PainRun, of func(Gauge) float64) Figure {
	return Figure{What: what, Unit: unit, From: metric, Pain: pain.gauge(metric, of), Remedied: remedied.gauge(metric, of)}
}
