package loadgen

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/progress"
)

// liveLine puts a row into one line.
func (r *runner) liveLine(row result.Row) progress.Event {
	var all result.Histogram
	var done, failed int64
	for _, l := range row.Ops {
		n := l.Response.Count()
		if l.Waited() {
			all.Add(l.Response)
		}
		if l.Done() {
			done += n
		} else {
			failed += n
		}
	}
	phase := "measuring"
	if row.Warmup {
		phase = "warming up"
	}
	span := max(row.Span, 0.001)
	note := fmt.Sprintf("%.0f requests/s", float64(done)/span)
	if p99 := all.Quantile(0.99); p99 > 0 {
		note += fmt.Sprintf(", p99 %s, max %s", roundLatency(p99), roundLatency(all.Max()))
	}
	if failed > 0 {
		note += fmt.Sprintf(", %d failed", failed)
	}
	if row.Waiting > 0 {
		note += fmt.Sprintf(", %d waiting", row.Waiting)
	}
	if row.Dropped > 0 {
		note += fmt.Sprintf(", %d left out", row.Dropped)
	}
	var largest int64
	for _, m := range row.Members {
		largest = max(largest, m.DBSize)
	}
	if largest > 0 {
		note += ", db " + humanize.IBytes(uint64(largest))
	}
	e := progress.Event{Op: "loadgen", Phase: phase, Unit: "seconds", Note: note, Done: int64(row.At + row.Span)}
	if r.opts.Duration > 0 {
		e.Total = int64((r.opts.Warmup + r.opts.Duration).Seconds())
	}
	return e
}

// roundLatency leaves three digits or so.
func roundLatency(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}
