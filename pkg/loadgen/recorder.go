package loadgen

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"kvd/pkg/loadgen/result"
)

// What a recorder remembers of each kind at most.
const (
	maxCauses = 32
	maxEvents = 1000
	maxNames  = 64 // of counters
)

// recorder adds up what happens: once for the whole measurement and once for the
// second at hand. Its memory does not grow with the length of the run. It is
// safe for concurrent use; one lock is held for some hundred nanoseconds a
// request.
type recorder struct {
	begun       time.Time
	measureFrom time.Time // what was due before belongs to the warm-up

	mu       sync.Mutex
	totals   map[result.Op]*result.Latencies
	window   map[result.Op]*result.Latencies
	counters map[string]float64
	causes   map[string]*result.Cause
	events   []result.Event
	turns    turnCount // measured
	row      turnCount // of the row at hand
	rowFrom  time.Time
}

// turnCount counts turns, and how late they were begun.
type turnCount struct {
	due, sent, dropped int64
	lag                result.Histogram
}

func newRecorder() *recorder {
	return &recorder{
		totals: map[result.Op]*result.Latencies{}, window: map[result.Op]*result.Latencies{},
		counters: map[string]float64{}, causes: map[string]*result.Cause{},
	}
}

// begin starts the clock.
func (r *recorder) begin(at time.Time, warmup time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun, r.measureFrom, r.rowFrom = at, at.Add(warmup), at
}

// record counts a request that was due, sent and done at these times. It belongs to
// the warm-up where the turn that it is of was due in it, so that turns are measured
// whole or not at all.
func (r *recorder) record(op result.Op, turn, due, sent, done time.Time, bytes int64) {
	if !op.Done() {
		bytes = 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.window[op]
	if !ok {
		w = &result.Latencies{Op: op, Response: result.Coarse()}
		r.window[op] = w
	}
	w.Bytes += bytes
	w.Response.Record(done.Sub(due))
	if turn.Before(r.measureFrom) {
		return
	}
	t, ok := r.totals[op]
	if !ok {
		t = &result.Latencies{Op: op}
		r.totals[op] = t
	}
	t.Bytes += bytes
	t.Response.Record(done.Sub(due))
	t.Service.Record(done.Sub(sent))
}

// scheduled counts a turn that was due.
func (r *recorder) scheduled(due time.Time) {
	r.turn(due, func(t *turnCount) { t.due++ })
}

// dropped counts a turn that was left out.
func (r *recorder) dropped(due time.Time) {
	r.turn(due, func(t *turnCount) { t.dropped++ })
}

// began counts a turn that was begun, and how late the generator was with it:
// less than nothing where it waited for the turn before.
func (r *recorder) began(due time.Time, lag time.Duration) {
	r.turn(due, func(t *turnCount) {
		t.sent++
		if lag >= 0 {
			t.lag.Record(lag)
		}
	})
}

// turn counts in the row at hand and, after the warm-up, in all.
func (r *recorder) turn(due time.Time, count func(*turnCount)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count(&r.row)
	if !due.Before(r.measureFrom) {
		count(&r.turns)
	}
}

func (r *recorder) count(name string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.measureFrom) {
		n = 0 // so that a counter that stays at zero is there to be asked for
	}
	if _, known := r.counters[name]; known || len(r.counters) < maxNames {
		r.counters[name] += float64(n)
	}
}

func (r *recorder) cause(cause, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.causes[cause]
	if !ok {
		if len(r.causes) == maxCauses {
			return
		}
		c = &result.Cause{Cause: cause, First: message}
		r.causes[cause] = c
	}
	c.Count++
}

func (r *recorder) event(what, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) < maxEvents {
		r.events = append(r.events, result.Event{At: time.Since(r.begun).Seconds(), What: what, Text: text})
	}
}

// closeRow ends the row at hand and begins the next.
func (r *recorder) closeRow(now time.Time) result.Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := result.Row{
		At: r.rowFrom.Sub(r.begun).Seconds(), Span: now.Sub(r.rowFrom).Seconds(), Warmup: r.rowFrom.Before(r.measureFrom),
		Due: r.row.due, Sent: r.row.sent, Dropped: r.row.dropped,
		Lag: r.row.lag.Quantile(0.99).Seconds(),
		Ops: sorted(r.window),
	}
	for i := range row.Ops {
		row.Ops[i].Response.Fold()
	}
	r.window = map[result.Op]*result.Latencies{}
	r.row, r.rowFrom = turnCount{}, now
	return row
}

// finish fills in what was measured.
func (r *recorder) finish(t *result.Totals) []result.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Due, t.Sent, t.Dropped = r.turns.due, r.turns.sent, r.turns.dropped
	t.Ops = sorted(r.totals)
	t.Counters = maps.Clone(r.counters)
	t.Lag = r.turns.lag.Clone()
	for _, c := range r.causes {
		t.Causes = append(t.Causes, *c)
	}
	slices.SortFunc(t.Causes, func(a, b result.Cause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause))
	})
	return slices.Clone(r.events)
}

func sorted(in map[result.Op]*result.Latencies) []result.Latencies {
	out := make([]result.Latencies, 0, len(in))
	for _, l := range in {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b result.Latencies) int { return result.CompareOps(a.Op, b.Op) })
	return out
}
