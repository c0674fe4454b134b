package result

import (
	"testing"
	"time"
)

// What goes one way all through a run is told; what goes up and down, or is too
// short or too small a change, is not.
func TestTrends(t *testing.T) {
	run := func(seconds int, took func(second int) time.Duration, inUse func(second int) int64) *Run {
		op := Op{RPC: "txn", Resource: "leases", Outcome: OK}
		r := &Run{Rows: []Row{{Span: 5, Warmup: true, Ops: []Latencies{{Op: op, Response: hist(time.Minute)}}}}}
		for s := range seconds {
			row := Row{At: float64(5 + s), Span: 1, Members: []MemberRow{{Name: "m1", DBInUse: inUse(s)}, {Name: "m2", DBInUse: 1}}}
			var h Histogram
			for range 100 {
				h.Record(took(s))
			}
			row.Ops = []Latencies{{Op: op, Response: h}}
			r.Rows = append(r.Rows, row)
		}
		return r
	}
	grow := func(s int) time.Duration { return time.Duration(10+s) * time.Millisecond }
	same := func(int) time.Duration { return 10 * time.Millisecond }
	flat := func(int) int64 { return 100 << 20 }
	for name, c := range map[string]struct {
		r    *Run
		want int
	}{
		"rests": {run(60, same, flat), 0}, "slower and slower": {run(60, grow, flat), 1},
		"faster and faster":   {run(60, func(s int) time.Duration { return grow(60 - s) }, flat), 1},
		"hardly slower":       {run(60, func(s int) time.Duration { return time.Duration(1000+s) * time.Millisecond }, flat), 0},
		"up and down":         {run(60, func(s int) time.Duration { return grow(s % 24) }, flat), 0},
		"db grows":            {run(60, same, func(s int) int64 { return int64(50+s) << 20 }), 1},
		"both":                {run(60, grow, func(s int) int64 { return int64(50+s) << 20 }), 2},
		"one step at the end": {run(60, func(s int) time.Duration { return time.Duration(10+5*(s/48)) * time.Millisecond }, func(s int) int64 { return int64(50+50*(s/48)) << 20 }), 0},
		"too short":           {run(24, grow, flat), 0},
		"nothing":             {&Run{}, 0},
	} {
		if got := Trends(c.r); len(got) != c.want {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
	got := Trends(run(60, grow, flat))
	if len(got) == 1 && (len(got[0].Fifths) != 5 || !near(got[0].Fifths[0], 0.021, 0.001) || !near(got[0].Fifths[4], 0.069, 0.001)) {
		t.Errorf("%+v", got)
	}
}
