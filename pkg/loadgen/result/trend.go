package result

import "slices"

// Trend is a figure that went one way all through the measurement: what was measured
// is then no steady state, and a longer run would say something else.
type Trend struct {
	Figure string    `json:"figure"`
	Unit   string    `json:"unit"`
	Fifths []float64 `json:"in_each_fifth"`
}

// How a trend is told from ups and downs: the figure is higher in each fifth of the
// measurement than in the one before (or lower in each), which happens by chance
// once in sixty, and has changed by a fifth in all. Fifths of less than five
// seconds say nothing.
const (
	trendParts   = 5
	trendChange  = 0.2
	trendSeconds = 5 * trendParts
)

// Trends finds what has not come to rest: the 99th percentile of all response
// times, and what is in use in the largest db, which grows until compaction has
// run twice.
func Trends(r *Run) []Trend {
	rows := r.measuredRows()
	seconds := 0.0
	for _, row := range rows {
		seconds += row.Span
	}
	if seconds < trendSeconds || len(rows) < trendParts {
		return nil
	}
	var p99, inUse []float64
	for i := range trendParts {
		var h Histogram
		var used int64
		for _, row := range rows[i*len(rows)/trendParts : (i+1)*len(rows)/trendParts] {
			for _, l := range row.Ops {
				if l.Waited() {
					h.Add(l.Response)
				}
			}
			for _, m := range row.Members {
				used = max(used, m.DBInUse)
			}
		}
		if h.Count() >= enoughForP99 {
			p99 = append(p99, h.Quantile(0.99).Seconds())
		}
		if used > 0 {
			inUse = append(inUse, float64(used))
		}
	}
	var out []Trend
	if goesOneWay(p99) {
		out = append(out, Trend{"p99 of all response times", UnitSeconds, p99})
	}
	if goesOneWay(inUse) {
		out = append(out, Trend{"in use in the largest db", UnitSize, inUse})
	}
	return out
}

func goesOneWay(v []float64) bool {
	if len(v) < trendParts {
		return false
	}
	up := slices.IsSortedFunc(v, strictly)
	slices.Reverse(v)
	down := slices.IsSortedFunc(v, strictly)
	slices.Reverse(v)
	lo, hi := min(v[0], v[len(v)-1]), max(v[0], v[len(v)-1])
	return (up || down) && hi > lo*(1+trendChange)
}

// strictly has slices.IsSortedFunc, which asks whether one is less than the one before
// it, take two equal ones for out of order.
func strictly(a, b float64) int {
	if a <= b {
		return -1
	}
	return 1
}
