package result

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
)

// hist counts each duration once.
func hist(ds ...time.Duration) Histogram {
	var h Histogram
	for _, d := range ds {
		h.Record(d)
	}
	return h
}

// sample is a run of n seconds, each with so many requests of 1 ms, 2 ms, ….
func sample(n, perSecond int, pace time.Duration) *Run {
	op := Op{RPC: "txn", Resource: "leases", Outcome: OK}
	r := &Run{Header: Header{Format: Format, Scenario: "k8s-heartbeats", Params: map[string]any{"nodes": 5.0}, Schedule: "abc", Actors: 5, Cluster: "1"}}
	r.Totals.Counters = map[string]float64{"late_heartbeats": 0}
	for s := range n {
		var h Histogram
		for i := range perSecond {
			h.Record(pace * time.Duration(i+1+s%3))
		}
		r.Rows = append(r.Rows, Row{At: float64(s), Span: 1, Due: int64(perSecond), Sent: int64(perSecond), CPU: 0.125, Lag: 0.002, Memory: 20 << 20, Ops: []Latencies{{Op: op, Bytes: 600, Response: h}},
			Members: []MemberRow{{Name: "m1", Leader: true, DBSize: 1 << 20, Memory: 50 << 20, Work: Work{WALBytes: 900, CPU: 0.1}}}})
		r.Totals.Ops = addOps(r.Totals.Ops, []Latencies{{Op: op, Bytes: 600, Response: h, Service: h}})
		r.Totals.Due, r.Totals.Sent = r.Totals.Due+int64(perSecond), r.Totals.Sent+int64(perSecond)
	}
	r.Totals.Measured, r.Totals.CPU, r.Totals.Memory = float64(n), 0.125, 20<<20
	return r
}

func TestHistogram(t *testing.T) {
	h := hist(0, time.Microsecond, 5*time.Millisecond, 2*time.Second, 3*time.Hour)
	if h.Count() != 5 || h.AtLeast(time.Second) != 2 || h.Quantile(0) != time.Microsecond {
		t.Errorf("count %d, over a second %d, least %s", h.Count(), h.AtLeast(time.Second), h.Quantile(0))
	}
	if m := h.Max(); m < MaxLatency || m > MaxLatency+5*time.Second {
		t.Errorf("what is longer than an hour counts as %s", m)
	}
	var sum Histogram
	sum.Add(h)
	sum.Add(hist(7 * time.Millisecond))
	sum.Add(Histogram{})
	if sum.Count() != 6 || h.Count() != 5 {
		t.Errorf("sum %d, its first part %d", sum.Count(), h.Count())
	}
	for _, bad := range []string{`"x"`, `5`, `"AAAA"`} {
		if err := new(Histogram).UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s was read as a histogram", bad)
		}
	}
}

// What is written comes back, to the last count.
func TestWriteAndRead(t *testing.T) {
	r := sample(4, 10, time.Millisecond)
	r.Events = []Event{{At: 2.5, What: "leader_change", Text: "m2 leads now"}}
	r.Totals.Causes = []Cause{{"deadline", 3, "no answer"}}
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	if err := Write(&b, sample(2, 3, time.Second)); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	runs, err := Read(strings.NewReader(whole), "f")
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	if !reflect.DeepEqual(NewReport(runs[0], nil, true), NewReport(r, nil, true)) {
		t.Errorf("read %+v\nwrote %+v", NewReport(runs[0], nil, true), NewReport(r, nil, true))
	}
	lines := strings.SplitAfter(whole, "\n")
	for name, cut := range map[string]string{
		"nothing": "", "no totals": strings.Join(lines[:3], ""), "no header": strings.Join(lines[1:], ""), "half a line": whole[:len(lines[0])+20],
		"another form": strings.Replace(whole, `"kvd_loadgen":1`, `"kvd_loadgen":2`, 1), "text": "hello",
	} {
		if _, err := Read(strings.NewReader(cut), "f"); fault.KindOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two generators' percentiles are those of all requests, not a mean of two.
func TestMerge(t *testing.T) {
	fast, slow := sample(3, 90, time.Microsecond), sample(3, 10, 100*time.Millisecond)
	slow.Totals.Counters["late_heartbeats"], slow.StartedAt = 4, slow.StartedAt.Add(time.Millisecond)
	m, err := Merge([]*Run{fast, slow})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Latency(Op.Done).Response
	if h.Count() != 300 || h.Quantile(0.5) > time.Millisecond || h.Quantile(0.95) < 100*time.Millisecond {
		t.Errorf("%d requests, p50 %s, p95 %s", h.Count(), h.Quantile(0.5), h.Quantile(0.95))
	}
	if len(m.Rows) != 3 || m.Rows[1].Due != 100 || m.Totals.Due != 300 || m.Totals.Counters["late_heartbeats"] != 4 || len(m.Rows[0].Members) != 1 {
		t.Errorf("rows %d, due %d, in all %d, late %v", len(m.Rows), m.Rows[1].Due, m.Totals.Due, m.Totals.Counters)
	}
	if fast.Rows[1].Ops[0].Response.Count() != 90 {
		t.Error("adding up has changed what was added")
	}
	other := sample(1, 1, time.Second)
	other.Cluster = "2"
	if _, err := Merge([]*Run{fast, other}); fault.CauseOf(err) != "different_runs" {
		t.Errorf("two clusters: %v", err)
	}
	later := sample(3, 1, time.Second)
	later.StartedAt = later.StartedAt.Add(4 * time.Second)
	if _, err := Merge([]*Run{fast, later}); fault.CauseOf(err) != "different_times" {
		t.Errorf("one after the other: %v", err)
	}
	if _, err := Merge([]*Run{fast, slow, fast}); fault.CauseOf(err) != "same_run" {
		t.Errorf("one run twice: %v", err)
	}
	fast.Options.Shard, slow.Options.Shard = "1/2", "1/2"
	if _, err := Merge([]*Run{fast, slow}); fault.CauseOf(err) != "same_run" {
		t.Errorf("one part twice: %v", err)
	}
}

// A run of any length has at most so many rows, and loses no count and no peak.
func TestLongRunsFitIntoTheSameMemory(t *testing.T) {
	var rows []Row
	const seconds = 5*MaxRows + 7
	op := Op{RPC: "txn", Outcome: OK}
	for s := range seconds {
		d := time.Millisecond
		if s == 4321 {
			d = 9 * time.Second
		}
		rows = AppendRow(rows, Row{At: float64(s), Span: 1, Due: 2, Ops: []Latencies{{Op: op, Response: hist(d)}}})
		if len(rows) > MaxRows {
			t.Fatalf("%d rows", len(rows))
		}
	}
	var due, n int64
	var span float64
	var top time.Duration
	for i, r := range rows {
		due, n, span, top = due+r.Due, n+r.Ops[0].Response.Count(), span+r.Span, max(top, r.Ops[0].Response.Max())
		if i > 0 && r.At != rows[i-1].At+rows[i-1].Span {
			t.Fatalf("row %d begins at %v, the one before ends at %v", i, r.At, rows[i-1].At+rows[i-1].Span)
		}
	}
	if due != 2*seconds || n != seconds || span != seconds || top < 9*time.Second {
		t.Errorf("due %d, requests %d, span %v, longest %s", due, n, span, top)
	}
}

func TestObjectives(t *testing.T) {
	r := sample(10, 10, time.Millisecond) // 1 to 12 ms
	fail := Op{RPC: "range", Resource: "pods", Outcome: Timeout}
	r.Totals.Ops = addOps(r.Totals.Ops, []Latencies{{Op: fail, Response: hist(7 * time.Second)}})
	r.Totals.Counters["missed_heartbeats"] = 2
	for text, want := range map[string]string{
		"txn:p99<13ms": Kept, "txn:p99<11ms": Broken, "txn leases:max<=13ms": Kept, "txn/leases:p50 > 1ms": Kept, "range pods:p99<1s": Broken,
		"errors<0.1%": Broken, "errors<=1": Kept, "txn:errors==0": Kept, "timeouts==1": Kept, "rate>=10": Kept, "txn:rate>10": Broken,
		"late_heartbeats==0": Kept, "missed_heartbeats==0": Broken, "dropped==0": Kept, "dropped<0.1%": Kept, "mean<100ms": Kept,
		"nodes:p99<1s": Unknown, "watch:p99<1s": Unknown, "txn:p999<1s": Unknown, "early_heartbeats==0": Unknown, "conflicts<5%": Kept,
	} {
		o, err := ParseObjectives(text)
		if err != nil || len(o) != 1 {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := Judge(r, o)[0]; got.Verdict != want {
			t.Errorf("%s: %+v, want %s", text, got, want)
		}
	}
	nothing := sample(10, 10, time.Millisecond)
	nothing.Totals.Ops = nil // stopped in the warm-up: nothing was late, and nothing was on time
	for _, text := range []string{"errors<0.1%", "errors==0", "late_heartbeats==0", "txn:p99<1s", "conflicts<5%"} {
		o, err := ParseObjectives(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Judge(nothing, o)[0]; got.Verdict != Unknown || got.Why == "" {
			t.Errorf("%s of nothing: %+v", text, got)
		}
	}
	for _, bad := range []string{"p99", "p99<50", "txn:p99<5 0ms", "errors<1ms", "a:b:p99<1s", "p99=1s", "p99<", "errors<%", "rate>=95%", "txn:requests>50%"} {
		if _, err := ParseObjectives(bad); fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
	both, err := ParseObjectives(" txn:p99<13ms , late_heartbeats==0,")
	if err != nil || len(both) != 2 {
		t.Fatalf("%v, %v", both, err)
	}
}

// What a run means to who ran it: nothing of the server where the generator was at
// its limits, whatever the objectives.
func TestVerdictOfARun(t *testing.T) {
	kind := func(r *Run, slo string) fault.Kind {
		o, err := ParseObjectives(slo)
		if err != nil {
			t.Fatal(err)
		}
		return fault.KindOf(Err(r, Judge(r, o)))
	}
	r := sample(5, 10, time.Millisecond)
	limited := sample(5, 10, time.Millisecond)
	limited.Totals.Limits = []string{"the generator used 93 % of its processors"}
	idle := sample(5, 10, time.Millisecond)
	idle.Totals.Ops = []Latencies{{Op: Op{RPC: "txn", Outcome: Failed}, Response: hist(time.Millisecond)}}
	idle.Totals.Causes = []Cause{{"request_too_large", 50, "the request is larger than the server takes"}}
	gone := sample(5, 10, time.Millisecond)
	gone.Totals.Deserted = "no member led; silent: m1"
	before := *idle // gone before the first answer
	before.Totals.Deserted, before.Totals.Causes = gone.Totals.Deserted, []Cause{{"deadline", 50, "no answer to this request in time"}}
	for _, c := range []struct {
		r    *Run
		slo  string
		want fault.Kind
	}{
		{&before, "", fault.Unavailable}, {&before, "errors==0", fault.Wanting},
		{r, "", ""}, {r, "txn:p99<1s", ""}, {r, "txn:p99<1us", fault.Wanting}, {r, "watch:p99<1s", fault.Inconclusive},
		{r, "watch:p99<1s,txn:p99<1us", fault.Wanting}, {limited, "txn:p99<1us", fault.Inconclusive}, {limited, "", fault.Inconclusive}, {idle, "", fault.Wanting},
		{gone, "", fault.Unavailable}, {gone, "txn:p99<1us", fault.Wanting}, {gone, "watch:p99<1s", fault.Unavailable},
	} {
		if got := kind(c.r, c.slo); got != c.want {
			t.Errorf("%q: %q, want %q", c.slo, got, c.want)
		}
	}
}

// What "all range" counts is said where there are several kinds of range; a range_stream
// is none.
func TestFiguresOfAllRequestsOfAKind(t *testing.T) {
	seen := map[figureName]bool{}
	for _, name := range []string{"all range p50", "range pods p50", "all range_stream p50", "range_stream pods p50", "all txn p50", "txn pods p50", "txn leases p50"} {
		seen[figureName{0, name, UnitSeconds}] = true
	}
	for name, want := range map[string]bool{"all range p50": true, "all range_stream p50": true, "all txn p50": false, "range pods p50": false} {
		if got := redundant(figureName{0, name, UnitSeconds}, seen); got != want {
			t.Errorf("%s redundant: %v", name, got)
		}
	}
}

func TestCompare(t *testing.T) {
	find := func(c Comparison, name string) Figure {
		for _, f := range c.Figures {
			if f.Name == name {
				return f
			}
		}
		t.Fatalf("no figure %q in %+v", name, c.Figures)
		return Figure{}
	}
	fast, slow := sample(60, 20, time.Millisecond), sample(60, 20, 3*time.Millisecond)
	c, err := Compare([]*Run{fast}, []*Run{slow})
	if err != nil {
		t.Fatal(err)
	}
	if f := find(c, "txn leases p50"); f.Verdict != More || !near(f.Ratio.Value, 3, 0.01) {
		t.Errorf("%+v %+v", f, f.Ratio)
	}
	if f := find(c, "txn leases answered"); f.Verdict != NoDifference || f.Ratio.Value != 1 {
		t.Errorf("the same rate: %+v", f)
	}
	if f := find(c, "bytes to the log per byte written"); !near(f.A, 1.5, 1e-9) || f.Verdict != NoDifference {
		t.Errorf("%+v", f)
	}
	if f := find(c, "bytes to peers"); f.Verdict != NoInterval {
		t.Errorf("nothing went to peers: %+v", f)
	}
	same, err := Compare([]*Run{fast, fast}, []*Run{fast, fast})
	if err != nil || same.Differs() {
		t.Errorf("a run differs from itself: %+v, %v", same, err)
	}
	short, err := Compare([]*Run{sample(3, 5, time.Millisecond)}, []*Run{sample(3, 5, time.Second)})
	if err != nil || short.Differs() {
		t.Errorf("three seconds are enough for an interval: %+v, %v", short, err)
	}
	slow.Totals.Limits = []string{"lag"}
	if _, err := Compare([]*Run{fast}, []*Run{slow}); fault.KindOf(err) != fault.Inconclusive {
		t.Errorf("a generator at its limits: %v", err)
	}
}

// A side that has both variants of an A/B run in it is none, runs that ended early are
// said to have, and so are those that nothing is compared with.
func TestCompareSides(t *testing.T) {
	of := func(variant, stopped string) *Run {
		r := sample(30, 20, time.Millisecond)
		r.Variant, r.Totals.Stopped = variant, stopped
		return r
	}
	one := []*Run{of("", "")}
	if c, err := Compare([]*Run{of("mode=a", ""), of("mode=b", "")}, one); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "mode=b") {
		t.Errorf("both variants on one side: %+v, %v", c, err)
	}
	for note, sides := range map[string][2][]*Run{
		"run 1 of B ended before its time": {one, {of("", StoppedByHand)}},
		"one side has 3 runs":              {{of("v", ""), of("v", ""), of("v", "")}, one},
	} {
		c, err := Compare(sides[0], sides[1])
		if err != nil || !strings.Contains(strings.Join(c.Notes, "\n"), note) {
			t.Errorf("%s: %v, %v", note, c.Notes, err)
		}
	}
	if c, err := Compare(one, []*Run{of("", "")}); err != nil || len(c.Notes) != 1 {
		t.Errorf("nothing to say but that a run is one: %v, %v", c.Notes, err)
	}
}

// Where two variants write different objects, it is their transactions as a whole
// that can be compared.
func TestCompareAcrossResources(t *testing.T) {
	a, b := sample(30, 20, time.Millisecond), sample(30, 20, time.Millisecond)
	for i := range b.Rows {
		b.Rows[i].Ops[0].Resource = "nodes"
	}
	c, err := Compare([]*Run{a}, []*Run{b})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range c.Figures {
		got[f.Name] = f.Verdict
	}
	for name, want := range map[string]string{"all txn answered": NoDifference, "txn leases answered": OnlyA, "txn nodes answered": OnlyB} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// Runs of different scenarios are said to be that, with what only one of them has.
func TestCompareAcrossScenarios(t *testing.T) {
	heartbeats, lists := sample(30, 20, time.Millisecond), sample(30, 20, 2*time.Millisecond)
	lists.Scenario, lists.Schedule = "k8s-list", "def"
	for i := range lists.Rows {
		lists.Rows[i].Ops = append(lists.Rows[i].Ops, Latencies{Op: Op{RPC: "range", Resource: "pods", Outcome: OK}, Response: hist(time.Millisecond)})
	}
	notes := func(a, b []*Run) string {
		t.Helper()
		c, err := Compare(a, b)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(c.Notes, "\n")
	}
	got := notes([]*Run{heartbeats}, []*Run{lists})
	for _, want := range []string{"different scenarios: A is k8s-heartbeats, B is k8s-list.", "Only B sends range pods: there is nothing to compare that with", "of the members"} {
		if !strings.HasPrefix(got, "these are runs of different scenarios") || !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	if strings.Contains(got, "Only A") || strings.Contains(got, "arrivals differ") {
		t.Errorf("%q", got)
	}
	two := []*Run{heartbeats, lists}
	if got := notes(two, two); !strings.Contains(got, "A is k8s-heartbeats, k8s-list, B is k8s-heartbeats, k8s-list") {
		t.Errorf("two scenarios on each side: %q", got)
	}
	other := sample(30, 20, time.Millisecond)
	other.Schedule = "def"
	if got := notes([]*Run{heartbeats}, []*Run{other}); strings.Contains(got, "scenarios") || !strings.Contains(got, "arrivals differ") {
		t.Errorf("one scenario: %q", got)
	}
}

// A part that is missing makes all amounts too small, and nothing else shows it.
func TestMissingParts(t *testing.T) {
	part := func(shard string) *Run { return &Run{Header: Header{Options: Options{Shard: shard}}} }
	for want, runs := range map[string][]*Run{
		"": {part("")}, "3/3": {part("1/3"), part("2/3")}, "1/3 3/3": {part("2/3")}, "2/2": {part("1/2")},
	} {
		if got := strings.Join(MissingParts(runs), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if all := MissingParts([]*Run{part("2/2"), part("1/2")}); len(all) > 0 {
		t.Errorf("%q of all", all)
	}
}
