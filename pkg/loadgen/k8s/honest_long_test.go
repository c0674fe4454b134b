//go:build long

package k8s_test

import (
	"math"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A server that is stopped for five seconds at 500 requests a second holds up all
// that was due in them: 500·(5-x) of them wait x seconds or longer. A closed loop
// would have sent as many as it has workers, and called the rest quick.
func TestResponseTimesAreHonest(t *testing.T) {
	const rate, pause = 500.0, 5.0
	// How long two cores take to catch up is not the question here, so both sides
	// collect their garbage seldom, and have one connection.
	t.Setenv("GOGC", "400") // the server's
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	s := newStage(t, local.Options{})
	h := heartbeats(5000, 10*time.Second) // each once in the first ten seconds
	h.StatusPeriod = 1000 * time.Hour
	o := s.options()
	o.Duration, o.Warmup = 15*time.Second, time.Second
	o.APIServers, o.Resources = 1, 1
	begun := make(chan struct{})
	sink := progress.Func(func(e progress.Event) {
		if e.Phase == "measuring" && e.Done == 4 {
			close(begun)
		}
	})
	paused := make(chan time.Duration, 1)
	go func() {
		<-begun
		if err := s.Pause(0); err != nil {
			t.Error(err)
		}
		at := time.Now()
		<-time.After(time.Duration(pause * float64(time.Second)))
		if err := s.Resume(0); err != nil {
			t.Error(err)
		}
		paused <- time.Since(at)
	}()
	r, err := loadgen.Run(t.Context(), s.client, h, o, nil, sink)
	if err != nil {
		t.Fatal(err)
	}
	lasted := (<-paused).Seconds()
	all := r.Latency(func(op result.Op) bool { return op.Waited() }).Response
	t.Logf("%d requests, %.1f due a second; the server was stopped for %.2f s: p50 %s, p99 %s, max %s; processors %.0f %%, lag %s",
		all.Count(), float64(r.Totals.Due)/r.Totals.Measured, lasted, all.Quantile(0.5), all.Quantile(0.99), all.Max(), 100*r.Totals.CPU, r.Totals.Lag.Quantile(0.99))
	for x := 1.0; x <= 4; x++ {
		want := rate * (lasted - x)
		got := all.AtLeast(time.Duration(x * float64(time.Second)))
		t.Logf("%.0f s or longer: %d, want %.0f", x, got, want)
		if math.Abs(float64(got)-want) > want/10 {
			t.Errorf("%d requests took %.0f s or longer, want %.0f ± 10 %%", got, x, want)
		}
	}
	if r.Totals.Dropped != 0 || r.Totals.Sent != r.Totals.Due {
		t.Errorf("due %d, begun %d, left out %d", r.Totals.Due, r.Totals.Sent, r.Totals.Dropped)
	}
	if n := r.Count(func(op result.Op) bool { return !op.Done() }); n != 0 {
		t.Errorf("%d requests failed: %+v", n, r.Totals.Causes)
	}
}

// etcd's own generator on the same pause: it begins its clock when a worker takes
// the next request, so what was due meanwhile and not sent is not in its figures.
// This is printed beside ours, and asserted of nobody.
func TestWhatBenchmarkSaysOfAPause(t *testing.T) {
	s := newStage(t, local.Options{})
	bench := servertest.Benchmark(t)
	go func() {
		<-time.After(5 * time.Second)
		_ = s.Pause(0)
		<-time.After(5 * time.Second)
		_ = s.Resume(0)
	}()
	out, err := exec.CommandContext(t.Context(), bench, "txn-put", "--endpoints", s.Endpoint(0), "--rate=500", "--total=7500",
		"--val-size=570", "--key-space-size=5000", "--conns=3", "--clients=50").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "% in ") || strings.Contains(line, "Slowest") || strings.Contains(line, "Requests/sec") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// What a transaction costs the generator, against etcd's own at the same rate, size
// of value and number of connections. Ours has a compare and an else branch in it,
// two histograms and a schedule.
func TestGeneratorIsCheap(t *testing.T) {
	const rate, seconds = 1000, 20
	s := newStage(t, local.Options{QuotaBytes: 8 << 30})
	run := func(name string, args ...string) time.Duration {
		cmd := exec.CommandContext(t.Context(), name, args...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	kvd := func(seconds int) time.Duration {
		return run(servertest.Binary(t), "loadgen", "k8s-heartbeats", "--endpoints", s.Endpoint(0), "--nodes", strconv.Itoa(rate*51/50), "--period=1s",
			"--status-period=1000h", "--images=0", "--warmup=0s", "--duration", (time.Duration(seconds) * time.Second).String(), "--max-lag=1h", "--compaction=0", "--progress=none")
	}
	benchmark := func(seconds int) time.Duration {
		return run(servertest.Benchmark(t), "txn-put", "--endpoints", s.Endpoint(0), "--rate", strconv.Itoa(rate), "--total", strconv.Itoa(rate*seconds),
			"--val-size=570", "--key-size=80", "--key-space-size", strconv.Itoa(rate), "--conns=3", "--clients=100")
	}
	kvd(1) // makes the nodes
	var ours, theirs time.Duration
	for range 3 { // in turns, since the machine has its moods
		ours += kvd(seconds+1) - kvd(1)
		theirs += benchmark(seconds+1) - benchmark(1)
	}
	per := func(d time.Duration) time.Duration { return d / (3 * seconds * rate) }
	t.Logf("processor time for a transaction: %s, etcd's benchmark %s, ratio %.2f", per(ours), per(theirs), ours.Seconds()/theirs.Seconds())
	if ours > theirs*11/10 {
		t.Errorf("a transaction costs %s, more than 1.1 times etcd's benchmark's %s", per(ours), per(theirs))
	}
}

// A generator's memory does not grow with the length of the run.
func TestMemoryIsFlat(t *testing.T) {
	s := newStage(t, local.Options{QuotaBytes: 8 << 30})
	h := heartbeats(2040, time.Second) // 2000 a second
	o := s.options()
	o.Warmup, o.Duration = time.Minute, 10*time.Minute
	r := s.play(t, k8s.WithCompaction(h, 30*time.Second), o)
	var memory []int64
	for _, row := range r.Rows {
		if !row.Warmup {
			memory = append(memory, row.Memory)
		}
	}
	median := func(rows []int64) float64 {
		rows = slices.Sorted(slices.Values(rows))
		return float64(rows[len(rows)/2])
	}
	first, last := median(memory[:60]), median(memory[len(memory)-60:])
	t.Logf("%.0f requests a second, %.1f MiB in the first minute, %.1f MiB in the last, at most %.1f MiB; processors %.0f %%",
		float64(r.Totals.Sent)/r.Totals.Measured, first/(1<<20), last/(1<<20), float64(slices.Max(memory))/(1<<20), 100*r.Totals.CPU)
	if sent := float64(r.Totals.Sent) / r.Totals.Measured; sent < 1900 || r.Totals.Dropped > 0 {
		t.Errorf("%.0f requests a second were begun, and %d left out: this is to be of 2000, none", sent, r.Totals.Dropped)
	}
	if last > 1.1*first || last < 0.9*first {
		t.Errorf("memory went from %.0f to %.0f bytes", first, last)
	}
}
