package k8s_test

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/server/local"
)

// playWell runs a scenario under a prefix of its own, and fails where a request
// did.
func (s *stage) playWell(t *testing.T, sc loadgen.Scenario, duration, warmup time.Duration) *result.Run {
	t.Helper()
	o := s.options()
	o.Duration, o.Warmup = duration, warmup
	o.Prefix = loadgen.Root + strings.ReplaceAll(t.Name(), "/", "-") // subtests run side by side
	run := s.play(t, sc, o)
	for _, op := range run.Totals.Ops {
		if !op.Done() && op.Outcome != result.Unfinished {
			t.Errorf("%s: %d times %s: %v", op.Name(), op.Response.Count(), op.Outcome, run.Totals.Causes)
		}
	}
	return run
}

// count is how often something ended in one way.
func count(r *result.Run, rpc, resource, outcome string) int64 {
	for _, op := range r.Totals.Ops {
		if op.Op == (result.Op{RPC: rpc, Resource: resource, Outcome: outcome}) {
			return op.Response.Count()
		}
	}
	return 0
}

// bytesOf is what the requests of a kind brought, or wrote.
func bytesOf(r *result.Run, rpc, resource string) (bytes, n int64) {
	for _, op := range r.Totals.Ops {
		if op.RPC == rpc && op.Resource == resource && op.Done() {
			bytes, n = bytes+op.Bytes, n+op.Response.Count()
		}
	}
	return bytes, n
}

// TestScenarios plays each load and its remedies on one server, side by side, and
// holds what was sent against what the scenario promises.
func TestScenarios(t *testing.T) {
	c := newStage(t, local.Options{})
	for name, test := range map[string]func(*testing.T, *stage){
		"list": testList, "endpoints": testEndpoints, "events": testEvents, "watch": testWatch, "slow watch": testSlowWatch, "events that never came": testEventsThatNeverCame,
		"pods": testPods, "relist": testRelist,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func testList(t *testing.T, c *stage) {
	const objects = 300
	requests := map[string]int64{"paged": 3, "paced": 3, "both": 3} // for one list, and 1 otherwise
	for name, set := range map[string]func(*k8s.ListOptions){
		"whole":        func(*k8s.ListOptions) {},
		"paged":        func(o *k8s.ListOptions) { o.PageSize = 100 },
		"paced":        func(o *k8s.ListOptions) { o.PageSize, o.ClientQPS = 100, 20 },
		"streamed":     func(o *k8s.ListOptions) { o.Stream = true },
		"both":         func(o *k8s.ListOptions) { o.Stream, o.PageSize = true, 100 },
		"serializable": func(o *k8s.ListOptions) { o.Serializable = true },
		"cached":       func(o *k8s.ListOptions) { o.FromCache = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &k8s.List{ListOptions: k8s.DefaultListOptions()}
			l.Objects, l.Nodes, l.Period = objects, 20, 300*time.Millisecond
			set(&l.ListOptions)
			run := c.playWell(t, l, time.Second, 0)
			bytes, n := bytesOf(run, "list", "pods")
			sent := count(run, "range", "pods", result.OK) + count(run, "range_stream", "pods", result.OK)
			if n < 5 {
				t.Fatalf("%s: %d lists", name, n)
			}
			if got, want := (sent+n/2)/n, max(requests[name], 1); got != want {
				t.Errorf("%s: %d requests for a list, want %d", name, got, want)
			}
			want := int64(objects * 3800)
			if name == "cached" {
				want = 0
			}
			if got := bytes / n; got < want || got > want*110/100 {
				t.Errorf("%s: a list brought %d bytes, want some %d", name, got, want)
			}
		})
	}
}

func testEndpoints(t *testing.T, c *stage) {
	size := func(mode string, n int) int64 {
		e := &k8s.Endpoints{EndpointOptions: k8s.DefaultEndpointOptions()}
		e.Mode, e.EndpointOptions.Endpoints, e.Nodes = mode, n, 0
		resource := map[string]string{k8s.ModeEndpoints: "endpoints", k8s.ModeSlices: "endpointslices"}[mode]
		run := c.playWell(t, e, time.Second, 0)
		bytes, writes := bytesOf(run, "txn", resource)
		if writes < 10 || run.Totals.Counters["watch_events"] == 0 {
			t.Errorf("%s of %d: %d writes, %v", mode, n, writes, run.Totals.Counters)
		}
		return bytes / writes
	}
	if e, s := size(k8s.ModeEndpoints, 1000), size(k8s.ModeSlices, 1000); float64(e)/float64(s) < 8 || float64(e)/float64(s) > 9 {
		t.Errorf("a change of 1000 endpoints: %d bytes in one object, %d in slices", e, s)
	}
	if e, s := size(k8s.ModeEndpoints, 100), size(k8s.ModeSlices, 100); float64(e)/float64(s) < 0.8 || float64(e)/float64(s) > 1 {
		t.Errorf("a change of 100 endpoints: %d bytes in one object, %d in slices", e, s)
	}
}

func testEvents(t *testing.T, c *stage) {
	run := func(set func(*k8s.EventOptions)) (events, repeated, grants int64) {
		e := &k8s.Events{EventOptions: k8s.DefaultEventOptions()}
		e.Rate, e.Sources, e.Nodes = 100, 20, 0
		set(&e.EventOptions)
		run := c.playWell(t, e, 1500*time.Millisecond, 0)
		return count(run, "txn", "events", result.OK), count(run, "range", "events", result.OK), count(run, "lease_grant", "events", result.OK)
	}
	events, repeated, grants := run(func(*k8s.EventOptions) {})
	if events < 60 || events > 180 || repeated < events/10 || repeated > events*3/10 || grants > 3 {
		t.Errorf("%d Events, %d repeated, %d leases", events, repeated, grants)
	}
	if events, _, grants := run(func(o *k8s.EventOptions) { o.LeasePerEvent = true }); grants < events-5 || grants > events+5 {
		t.Errorf("a lease each: %d Events, %d leases", events, grants)
	}
	if events, _, grants := run(func(o *k8s.EventOptions) { o.LeaseObjects = 10 }); grants < events/10-3 || grants > events/10+6 {
		t.Errorf("ten to a lease: %d Events, %d leases", events, grants)
	}
}

func testWatch(t *testing.T, c *stage) {
	for name, set := range map[string]func(*k8s.WatchOptions){
		"own":       func(*k8s.WatchOptions) {},
		"shared":    func(o *k8s.WatchOptions) { o.Streams = k8s.StreamsShared },
		"sharded":   func(o *k8s.WatchOptions) { o.Shards = 10 },
		"reconnect": func(o *k8s.WatchOptions) { o.Reconnect = 300 * time.Millisecond },
		"bare":      func(o *k8s.WatchOptions) { o.PrevKV, o.Bookmarks, o.Quiet = false, false, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &k8s.Watch{WatchOptions: k8s.DefaultWatchOptions()}
			w.Objects, w.Nodes, w.Rate = 100, 0, 100
			set(&w.WatchOptions)
			run := c.playWell(t, w, time.Second, 0)
			bytes, seen := bytesOf(run, "watch_event", "pods")
			written := count(run, "txn", "pods", result.OK)
			want := written * int64(w.Informers) / int64(w.Shards)
			if seen < want/4 || seen > want*11/10 { // an informer that begins late has a part of them in its list
				t.Errorf("%s: %d events of %d writes, want some %d", name, seen, written, want)
			}
			if n := count(run, "watch_event", "pods", result.Unfinished); n > 0 {
				t.Errorf("%s: %d events are said not to have come, of %d", name, n, written)
			}
			copies := int64(1)
			if w.PrevKV {
				copies = 2
			}
			if got := bytes / max(seen, 1); got < copies*3756 || got > copies*3956 {
				t.Errorf("%s: an event has %d bytes", name, got)
			}
			for _, wrong := range []string{"missing_events", "duplicate_events", "unordered_events", "watches_compacted"} {
				if n, there := run.Totals.Counters[wrong]; n != 0 || !there {
					t.Errorf("%s: %v %s (counted: %v)", name, n, wrong, there)
				}
			}
		})
	}
}

// testSlowWatch has the slow ones late, and the others too where they share a
// stream with them.
func testSlowWatch(t *testing.T, c *stage) {
	lag := map[string]time.Duration{}
	for _, streams := range []string{k8s.StreamsOwn, k8s.StreamsShared} {
		run := c.playSlow(t, streams, 400<<10) // of some 1500 KiB/s
		for _, op := range run.Totals.Ops {
			if op.RPC == "watch_event" && op.Outcome == result.OK {
				lag[streams+" "+op.Resource] = op.Response.Quantile(0.5)
			}
		}
	}
	if lag["own pods (slow)"] < 2*lag["own pods"] || lag["shared pods"] < 2*lag["own pods"] {
		t.Errorf("median lags %v", lag)
	}
}

// playSlow plays six informers of which three are slow, at so many bytes a second.
func (s *stage) playSlow(t *testing.T, streams string, rate int64) *result.Run {
	t.Helper()
	w := &k8s.Watch{WatchOptions: k8s.DefaultWatchOptions()}
	w.Objects, w.Nodes, w.Informers, w.Slow, w.Streams, w.SlowRate = 100, 0, 6, 3, streams, rate
	o := s.options()
	o.Duration, o.Drain, o.Prefix = 2*time.Second, time.Second, loadgen.Root+strings.ReplaceAll(t.Name(), "/", "-")
	return s.play(t, w, o)
}

// testEventsThatNeverCame has readers so slow that hardly an event gets through to those
// who share their streams. What did not come is counted, as late as it was by the end:
// the few that came say nothing of how long one waits.
func testEventsThatNeverCame(t *testing.T, c *stage) {
	run := c.playSlow(t, k8s.StreamsShared, 10<<10)
	for label, informers := range map[string]int64{"pods": 3, "pods (slow)": 3} {
		came, never := count(run, "watch_event", label, result.OK), count(run, "watch_event", label, result.Unfinished)
		due := informers * count(run, "txn", "pods", result.OK)
		if never < came || came+never > due || came+never < due*3/4 {
			t.Errorf("%s: %d came and %d did not, of %d", label, came, never, due)
		}
	}
	lag := run.Latency(func(op result.Op) bool { return op.RPC == "watch_event" && op.Waited() }).Response
	if p50, worst := lag.Quantile(0.5), lag.Quantile(1); p50 < time.Second || worst < 2500*time.Millisecond {
		t.Errorf("half of the events were waited for for %s or less, the last for %s", p50, worst)
	}
	objectives, err := result.ParseObjectives("watch_event pods:p99<1s")
	if err != nil {
		t.Fatal(err)
	}
	if judged := result.Judge(run, objectives); judged[0].Verdict != result.Broken {
		t.Errorf("%+v", judged)
	}
}

// testPods holds what is written for a pod against table 2.2 of the model. Lives
// last 0.4 s, and the last of each slot is cut short.
func testPods(t *testing.T, c *stage) {
	for name, row := range map[string]struct {
		set    func(*k8s.PodOptions)
		writes float64 // of a pod
		want   map[string]float64
	}{
		"as ever": {func(*k8s.PodOptions) {}, 8, map[string]float64{"reads": 6.5, "events": 7.5, "endpoints": 1.25, "endpointslices": 1.25,
			"replicasets": 1, "deployments": 0.5}},
		"merged": {func(o *k8s.PodOptions) { o.StatusMerge = true }, 6, map[string]float64{"reads": 4.5, "events": 7.5}},
		"cached": {func(o *k8s.PodOptions) { o.ReadCache = true }, 8, map[string]float64{"reads": 2.5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &k8s.Pods{PodOptions: k8s.DefaultPodOptions()}
			p.Rate, p.Step, p.Nodes = 20, 50*time.Millisecond, 0
			row.set(&p.PodOptions)
			run := c.playWell(t, p, 3*time.Second, 0)
			_, n := bytesOf(run, "txn", "pods")
			pods := float64(n) / row.writes
			if pods < 10 {
				t.Fatalf("%d writes of pods", n)
			}
			for what, want := range row.want {
				_, n := bytesOf(run, "txn", what)
				if what == "reads" {
					_, n = bytesOf(run, "range", "pods")
				}
				if got := float64(n) / pods; got < want*0.8 || got > want*1.2 {
					t.Errorf("%.2f %s for each pod, want %.2f", got, what, want)
				}
			}
		})
	}
}

func testRelist(t *testing.T, c *stage) {
	for name, set := range map[string]func(*k8s.RelistOptions){
		"paged":     func(o *k8s.RelistOptions) { o.PageSize = 100 },
		"streamed":  func(o *k8s.RelistOptions) { o.Stream = true },
		"staggered": func(o *k8s.RelistOptions) { o.Stagger = 300 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &k8s.Relist{RelistOptions: k8s.DefaultRelistOptions()}
			r.Objects, r.Kinds, r.Nodes, r.Period = 200, 20, 10, 700*time.Millisecond
			set(&r.RelistOptions)
			run := c.playWell(t, r, 1500*time.Millisecond, 0)
			bytes, filled := bytesOf(run, "cache_filled", "pods")
			if others := count(run, "cache_filled", "others", result.OK); filled < 3 || filled > 12 || others < filled*15 || others > filled*21 {
				t.Errorf("%s: filled %d caches of pods, %d others", name, filled, others)
			}
			if got := bytes / max(filled, 1); got < 200*3756 || got > 200*3900 {
				t.Errorf("%s: a cache of pods read %d bytes", name, got)
			}
		})
	}
}
