package result

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"kvd/pkg/ops/fault"
)

// Comparison sets two loads against each other.
type Comparison struct {
	A       string   `json:"a"`
	B       string   `json:"b"`
	Basis   string   `json:"basis"` // what the intervals rest on
	Notes   []string `json:"notes,omitempty"`
	Figures []Figure `json:"figures"`
}

// Figure is one figure of both. Of A and B it gives the geometric mean, of all
// the sum of one second or the like: see Unit.
type Figure struct {
	Name    string  `json:"name"` // "txn leases p99", "wal bytes"
	Unit    string  `json:"unit"` // "seconds", "bytes_per_second", …
	A       float64 `json:"a"`
	B       float64 `json:"b"`
	Ratio   *Ratio  `json:"b_over_a,omitempty"` // nil: no interval, see Verdict
	Verdict string  `json:"verdict"`
}

// The verdicts over a figure.
const (
	More         = "B is more"
	Less         = "B is less"
	NoDifference = "no difference shown"
	NoInterval   = "no interval" // too few measurements, or one of them is 0
	OnlyA        = "only in A"
	OnlyB        = "only in B"
)

// What a single run is cut into for an interval: batches that are long against
// what one second has to do with the next.
const (
	maxBatches     = 20
	minBatches     = 5
	secondsOfBatch = 3
)

// How many requests a measurement's percentile takes, to be more than the one
// request that happened to be it.
const (
	enoughForP50 = 10
	enoughForP99 = 100
)

// Differs reports that any figure shows a difference.
func (c Comparison) Differs() bool {
	return slices.ContainsFunc(c.Figures, func(f Figure) bool { return f.Ratio != nil && f.Ratio.Differs() })
}

// Compare sets the runs of one load against those of another. With two or more of
// each, every run is a measurement. With one each, both are cut into batches: that
// takes account of what goes up and down within a run, not of what differs
// from run to run. Runs whose generator reached its own limits are an error of
// kind Inconclusive.
func Compare(a, b []*Run) (Comparison, error) {
	for _, r := range slices.Concat(a, b) {
		if len(r.Totals.Limits) > 0 {
			return Comparison{}, &fault.Error{Kind: fault.Inconclusive, Cause: "generator_limit", Op: "compare", Subject: label([]*Run{r}),
				Msg: "a generator reached its own limits: " + strings.Join(r.Totals.Limits, "; "), Hint: "measure again with less load, or on more processors"}
		}
	}
	if len(a) == 0 || len(b) == 0 {
		return Comparison{}, &fault.Error{Kind: fault.Usage, Cause: "no_result", Op: "compare", Msg: "it takes a run on each side"}
	}
	if err := mixedUp(a, b); err != nil {
		return Comparison{}, err
	}
	c := Comparison{A: label(a), B: label(b)}
	var ma, mb []measurement
	switch {
	case len(a) > 1 && len(b) > 1:
		c.Basis = fmt.Sprintf("%d runs and %d runs", len(a), len(b))
		ma, mb = wholeRuns(a), wholeRuns(b)
	default:
		if n := max(len(a), len(b)); n > 1 {
			c.Notes = append(c.Notes, fmt.Sprintf("one side has %d runs and the other one: the first of each is compared", n))
		}
		a, b = a[:1], b[:1]
		ma, mb = batches(a[0]), batches(b[0])
		c.Basis = fmt.Sprintf("one run each, in %d and %d batches", len(ma), len(mb))
		c.Notes = append(c.Notes, "a single run does not show how much runs differ from each other: repeat both to know (--ab does, in turns)")
	}
	if other := otherWork(a, b); other != "" {
		c.Notes = slices.Insert(c.Notes, 0, other)
	} else if a[0].Schedule != b[0].Schedule {
		c.Notes = append(c.Notes, "arrivals differ: the two did not have the same schedule")
	}
	c.Notes = append(c.Notes, stoppedNotes("A", a)...)
	c.Notes = append(c.Notes, stoppedNotes("B", b)...)
	for _, name := range figureNames(ma, mb) {
		c.Figures = append(c.Figures, figure(name, ma, mb))
	}
	return c, nil
}

// Variants takes apart what an A/B run has kept: the runs of the variant that came
// first, and those of the other.
func Variants(runs []*Run) (a, b []*Run, err error) {
	for _, r := range runs {
		switch {
		case len(a) == 0 || r.Variant == a[0].Variant:
			a = append(a, r)
		case len(b) == 0 || r.Variant == b[0].Variant:
			b = append(b, r)
		default:
			err = fault.New(fault.Usage, "there are more than two variants in it")
		}
	}
	if len(b) == 0 {
		err = fault.New(fault.Usage, "there are no two variants in it").WithHint("give another result to compare with")
	}
	return a, b, err
}

func label(runs []*Run) string {
	r := runs[0]
	if r.Variant != "" {
		return r.Variant
	}
	var params []string
	for k, v := range r.Params {
		params = append(params, fmt.Sprintf("%s=%v", k, v))
	}
	sort.Strings(params)
	return r.Scenario + " " + strings.Join(params, " ")
}

// measurement is what was measured once: in a run, or in a batch of one.
type measurement map[figureName]float64

type figureName struct {
	rank       int // groups requests, then the server
	name, unit string
}

// The units of figures.
const (
	UnitSeconds = "seconds"
	UnitRate    = "per_second"
	UnitBytes   = "bytes_per_second"
	UnitSize    = "bytes"
	UnitCPU     = "processors"
	UnitRatio   = "ratio"
	UnitShare   = "share" // of 1, shown in per cent
)

func wholeRuns(runs []*Run) []measurement {
	out := make([]measurement, len(runs))
	for i, r := range runs {
		out[i] = measure(r.measuredRows())
	}
	return out
}

func (r *Run) measuredRows() []Row {
	return slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Warmup })
}

// batches cuts a run's rows into batches of about the same length.
func batches(r *Run) []measurement {
	rows := r.measuredRows()
	n := min(len(rows)/secondsOfBatch, maxBatches)
	if n < minBatches {
		return []measurement{measure(rows)}
	}
	out := make([]measurement, n)
	for i := range out {
		out[i] = measure(rows[i*len(rows)/n : (i+1)*len(rows)/n])
	}
	return out
}

// measure takes the figures of some rows.
func measure(rows []Row) measurement {
	m := measurement{}
	var seconds, logical float64
	byName := map[string]*Histogram{}
	done := map[string]float64{}
	for _, row := range rows {
		seconds += row.Span
		for _, l := range row.Ops {
			// What a variant writes elsewhere is to be compared too, so each kind
			// of request is there as a whole as well.
			for _, name := range []string{"all " + l.RPC, l.Name()} {
				h, ok := byName[name]
				if !ok {
					h = &Histogram{}
					byName[name] = h
				}
				if l.Waited() {
					h.Add(l.Response)
				}
				if l.Done() {
					done[name] += float64(l.Response.Count())
				}
			}
			if l.RPC == "txn" && l.Done() {
				logical += float64(l.Bytes)
			}
		}
	}
	if seconds == 0 {
		return m
	}
	for name, h := range byName {
		if h.Count() >= enoughForP50 {
			m[figureName{0, name + " p50", UnitSeconds}] = h.Quantile(0.5).Seconds()
		}
		if h.Count() >= enoughForP99 {
			m[figureName{1, name + " p99", UnitSeconds}] = h.Quantile(0.99).Seconds()
		}
		m[figureName{2, name + " answered", UnitRate}] = done[name] / seconds
	}
	m[figureName{3, "written by the load", UnitBytes}] = logical / seconds
	if n := done["all txn"]; n > 0 { // of how busy the machine was it says nothing, so it is seen on any
		m[figureName{3, "each write of the load", UnitSize}] = logical / n
	}
	m.addServers(rows, seconds, logical)
	return m
}

// addServers adds what the members' own metrics say, all members together, or
// the worst of them.
func (m measurement) addServers(rows []Row, seconds, logical float64) {
	var wal, peer, client, cpu, fsync, commit float64
	var memory, inUse int64
	asked := false
	for _, row := range rows {
		var used int64
		for _, s := range row.Members {
			asked = asked || s.Memory > 0
			wal, peer, client, cpu = wal+s.WALBytes, peer+s.PeerBytes, client+s.ClientBytes, cpu+s.CPU
			fsync, commit = max(fsync, s.FsyncP99), max(commit, s.CommitP99)
			memory, used = max(memory, s.Memory), max(used, s.DBInUse)
		}
		inUse = max(inUse, used)
	}
	if !asked {
		return
	}
	m[figureName{4, "bytes to the log", UnitBytes}] = wal / seconds
	m[figureName{4, "bytes to peers", UnitBytes}] = peer / seconds
	m[figureName{4, "bytes to clients", UnitBytes}] = client / seconds
	m[figureName{4, "processors of the members", UnitCPU}] = cpu / seconds
	m[figureName{5, "slowest second's wal fsync p99", UnitSeconds}] = fsync
	m[figureName{5, "slowest second's backend commit p99", UnitSeconds}] = commit
	m[figureName{6, "memory of the largest member", UnitSize}] = float64(memory)
	m[figureName{6, "in use in the largest db", UnitSize}] = float64(inUse)
	if logical > 0 {
		m[figureName{7, "bytes to the log per byte written", UnitRatio}] = wal / logical
		m[figureName{7, "bytes to peers per byte written", UnitRatio}] = peer / logical
	}
}

// figureNames lists the figures that either side has, in order.
func figureNames(sides ...[]measurement) []figureName {
	seen := map[figureName]bool{}
	var out []figureName
	for _, side := range sides {
		for _, m := range side {
			for f := range m {
				if !seen[f] {
					seen[f] = true
					out = append(out, f)
				}
			}
		}
	}
	out = slices.DeleteFunc(out, func(f figureName) bool { return redundant(f, seen) })
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.rank != b.rank {
			return a.rank < b.rank
		}
		return a.name < b.name
	})
	return out
}

// redundant reports that a figure of all requests of a kind is that of the only
// ones there are.
func redundant(f figureName, all map[figureName]bool) bool {
	kind, ok := strings.CutPrefix(f.name, "all ")
	if !ok {
		return false
	}
	rpc, what, _ := strings.Cut(kind, " ")
	n := 0
	for o := range all {
		if strings.HasPrefix(o.name, rpc+" ") && strings.HasSuffix(o.name, " "+what) && o.rank == f.rank && o != f {
			n++
		}
	}
	return n < 2
}

// figure compares one figure.
func figure(name figureName, a, b []measurement) Figure {
	of := func(side []measurement) (values []float64, has bool) {
		values = make([]float64, len(side))
		for i, m := range side {
			v, ok := m[name]
			values[i], has = v, has || ok
		}
		return values, has
	}
	va, inA := of(a)
	vb, inB := of(b)
	f := Figure{Name: name.name, Unit: name.unit, A: middle(va), B: middle(vb), Verdict: NoInterval}
	switch {
	case !inA:
		f.Verdict = OnlyB
	case !inB:
		f.Verdict = OnlyA
	}
	if r, ok := ratioOf(va, vb); ok {
		f.Ratio = &r
		switch {
		case r.Low > 1:
			f.Verdict = More
		case r.High < 1:
			f.Verdict = Less
		default:
			f.Verdict = NoDifference
		}
	}
	return f
}

// middle is the geometric mean, which ratios are of; where a 0 is among them, the
// arithmetic one.
func middle(x []float64) float64 {
	l, ok := logs(append(slices.Clone(x), 1)) // one more, so that one alone will do
	sum := 0.0
	if ok {
		for _, v := range l {
			sum += v
		}
		return math.Exp(sum / float64(len(x)))
	}
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(len(x), 1))
}
