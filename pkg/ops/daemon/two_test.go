package daemon_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/daemon"
	"kvd/pkg/ops/lead"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/schedule"
)

// gate is a clock that stands still until a barrier is released, and then shows
// the time of the first tick and goes on. All that wait at one barrier wake up
// together.
type gate struct {
	base     time.Time
	barrier  <-chan struct{}
	mu       *sync.Mutex
	released *time.Time
}

func (g gate) Now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.released.IsZero() {
		return g.base
	}
	return g.base.Add(time.Hour + time.Since(*g.released))
}

func (g gate) After(d time.Duration) (<-chan time.Time, func()) {
	ch := make(chan time.Time, 1)
	select {
	case <-g.barrier:
		return schedule.System{}.After(d)
	default:
	}
	go func() { <-g.barrier; ch <- time.Now() }()
	return ch, func() {}
}

// rival is one of several schedulers in a test.
type rival struct {
	mu      sync.Mutex
	reports []plan.Report
	logs    *observer.ObservedLogs
	stop    chan struct{}
	ended   chan error
}

func (r *rival) did(a plan.State) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, rep := range r.reports {
		for _, s := range rep.Steps {
			if s.State == a && s.Action == "defragment" {
				n++
			}
		}
	}
	return n
}

// told returns why it did nothing.
func (r *rival) told() (reason, why string) {
	for _, e := range r.logs.FilterMessage("skipped").All() {
		m := e.ContextMap()
		reason, _ = m["reason"].(string)
		why, _ = m["error"].(string)
	}
	return reason, why
}

func (r *rival) decided() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	reason, _ := r.told()
	return len(r.reports) > 0 || reason != ""
}

func (s *stage) rival(t *testing.T, g gate, change func(*daemon.Options, *ops.DefragOptions)) *rival {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	r := &rival{logs: logs, stop: make(chan struct{}), ended: make(chan error, 1)}
	sched, err := schedule.Parse(schedule.Options{Expr: "@every 1h", Timezone: "UTC"}, g.base)
	if err != nil {
		t.Fatal(err)
	}
	o := daemon.Options{Op: "defrag", Schedule: sched, Client: s.connect(t), Lead: lead.DefaultOptions("defrag"), Log: zap.New(core), Clock: g}
	do := ops.DefaultDefragOptions()
	do.Settle, do.MinGain = 300*time.Millisecond, 1<<20
	o.Plan = func(ctx context.Context, v cluster.View, sink progress.Sink) (*plan.Plan, error) {
		return ops.PlanDefrag(ctx, o.Client, v, do, sink)
	}
	o.Report = func(rep plan.Report) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reports = append(r.reports, rep)
		return nil
	}
	o.Lead.BlindMax, o.Lead.BlindGap = 6*time.Second, 1500*time.Millisecond
	if change != nil {
		change(&o, &do)
	}
	go func() { r.ended <- daemon.Serve(t.Context(), r.stop, o) }()
	t.Cleanup(func() {
		if t.Failed() {
			for _, e := range logs.All() {
				m := e.ContextMap()
				t.Log(e.Message, m["subject"], m["state"], m["outcome"], m["reason"], m["error"], m["note"])
			}
		}
	})
	return r
}

func (r *rival) end(t *testing.T) {
	t.Helper()
	close(r.stop)
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func newGate() (gate, func()) {
	barrier := make(chan struct{})
	g := gate{base: time.Now().Round(0), barrier: barrier, mu: &sync.Mutex{}, released: &time.Time{}}
	return g, func() {
		g.mu.Lock()
		*g.released = time.Now()
		g.mu.Unlock()
		close(barrier)
	}
}

// compete lets two schedulers loose on the same tick and checks that one of them
// does all of it, member by member.
func compete(t *testing.T, s *stage, between func()) {
	t.Helper()
	g, release := newGate()
	rivals := []*rival{s.rival(t, g, nil), s.rival(t, g, nil)}
	for _, r := range rivals {
		until(t, "waits for its tick", func() bool { return r.logs.FilterMessage("next run").Len() > 0 })
	}
	if between != nil {
		between()
	}
	before := s.completed(t)
	watched := s.watch(t)
	release()
	for _, r := range rivals {
		until(t, "has run or been told why not", r.decided)
	}
	one, more := watched()
	done := []int{rivals[0].did(plan.Done), rivals[1].did(plan.Done)}
	if max(done[0], done[1]) != s.Len() || min(done[0], done[1]) != 0 {
		t.Errorf("defragmented %d and %d members, want %d and 0", done[0], done[1], s.Len())
	}
	loser := rivals[0]
	if done[0] > 0 {
		loser = rivals[1]
	}
	if reason, why := loser.told(); reason != lead.CauseOther || !strings.Contains(why, "another run by ") {
		t.Errorf("the other was told %q: %s", reason, why)
	}
	for i, n := range s.completed(t) {
		if n-before[i] != 1 {
			t.Errorf("%s was defragmented %d times", s.Name(i), n-before[i])
		}
	}
	if more > 0 {
		t.Errorf("two members were defragmented at once: %d samples, and %d of one", more, one)
	}
	for _, r := range rivals {
		r.end(t)
	}
}

// TestTwoSchedulersOneRuns; the 20 repeats are in long_test.go.
func TestTwoSchedulersOneRuns(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, 0, 2)
	s.fragment(t, 3)
	compete(t, s, nil)
}
