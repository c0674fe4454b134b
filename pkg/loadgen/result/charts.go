package result

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
)

// Chart is one picture: lines over the time since the run began, in seconds, or,
// for percentiles, over them.
type Chart struct {
	Title string `json:"title"`
	X     string `json:"x"`    // "seconds", or "percentile"
	Unit  string `json:"unit"` // of y: "seconds", "bytes", "per_second", …
	Lines []Line `json:"lines"`
}

// Line is one line of a chart. Where a run has more rows than a picture has room
// for, a point is the highest of several, so that no peak is lost.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
	Max    float64      `json:"max"`
}

// shortestRow is how many seconds a row must have to be drawn: the last one, in
// which answers that are late still come in, may be a moment only, and a rate
// of it would be none.
const shortestRow = 0.25

// maxPoints is how many points a line has at most.
const maxPoints = 600

// Charts draws a run: what was asked and answered, how long it took, what the
// generator itself needed, and what the members say of themselves.
func Charts(r *Run) []Chart {
	whole := *r
	whole.Rows = slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Span < shortestRow })
	r = &whole
	charts := append(latencyCharts(r), percentileChart(r), rateChart(r))
	charts = append(charts, generatorCharts(r)...)
	for _, c := range []struct {
		title, unit string
		of          func(Row, MemberRow) float64
	}{
		{"database file", UnitSize, func(_ Row, m MemberRow) float64 { return float64(m.DBSize) }},
		{"in use in the database file", UnitSize, func(_ Row, m MemberRow) float64 { return float64(m.DBInUse) }},
		{"fsync of the log, 99 of 100", "seconds", func(_ Row, m MemberRow) float64 { return m.FsyncP99 }},
		{"commit of the database, 99 of 100", "seconds", func(_ Row, m MemberRow) float64 { return m.CommitP99 }},
		{"resident memory", UnitSize, func(_ Row, m MemberRow) float64 { return float64(m.Memory) }},
		{"bytes to the log per byte written", "ratio", func(row Row, m MemberRow) float64 { return perByte(m.WALBytes, row) }},
		{"bytes to peers per byte written", "ratio", func(row Row, m MemberRow) float64 { return perByte(m.PeerBytes, row) }},
	} {
		if lines := memberLines(r, c.of); len(lines) > 0 {
			charts = append(charts, Chart{Title: c.title, X: "seconds", Unit: c.unit, Lines: lines})
		}
	}
	return charts
}

// line makes a line of points, as many as there is room for.
func line(name string, points [][2]float64) Line {
	l := Line{Name: name, Points: points}
	if per := (len(points) + maxPoints - 1) / maxPoints; per > 1 {
		l.Points = nil
		for chunk := range slices.Chunk(points, per) {
			highest := chunk[0]
			for _, p := range chunk {
				if p[1] > highest[1] {
					highest = p
				}
			}
			l.Points = append(l.Points, highest)
		}
	}
	for _, p := range l.Points {
		l.Max = max(l.Max, p[1])
	}
	return l
}

// latencyCharts have median, 99th percentile and maximum over time, one chart for
// each of the most frequent kinds of request.
func latencyCharts(r *Run) []Chart {
	var out []Chart
	for _, name := range waitedNames(r) {
		c := Chart{Title: "response time of " + name, X: "seconds", Unit: UnitSeconds}
		var p50, p99, top [][2]float64
		for _, row := range r.Rows {
			h := rowLatency(row, name)
			if h.Count() == 0 {
				continue
			}
			p50 = append(p50, [2]float64{row.At, h.Quantile(0.5).Seconds()})
			p99 = append(p99, [2]float64{row.At, h.Quantile(0.99).Seconds()})
			top = append(top, [2]float64{row.At, h.Max().Seconds()})
		}
		c.Lines = append(c.Lines, line("p50", p50), line("p99", p99), line("max", top))
		out = append(out, c)
	}
	return out
}

// maxKinds is how many kinds of request have charts of their own.
const maxKinds = 6

// waitedNames are the kinds of requests that were waited for, the most frequent
// first, as far as there is room for them.
func waitedNames(r *Run) []string {
	counts := map[string]int64{}
	for _, row := range r.Rows {
		for _, l := range row.Ops {
			if l.Waited() {
				counts[l.Name()] += l.Response.Count()
			}
		}
	}
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return names[:min(len(names), maxKinds)]
}

func rowLatency(row Row, name string) Histogram {
	var h Histogram
	for _, l := range row.Ops {
		if l.Waited() && l.Name() == name {
			h.Add(l.Response)
		}
	}
	return h
}

// percentileChart has the whole distribution: x is how many nines, since what is
// of interest is at the end.
func percentileChart(r *Run) Chart {
	c := Chart{Title: "response time by percentile", X: "percentile", Unit: UnitSeconds}
	for _, name := range waitedNames(r) {
		h := r.Latency(func(op Op) bool { return op.Waited() && op.Name() == name }).Response
		if h.Count() == 0 {
			continue
		}
		var points [][2]float64
		for _, q := range []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999} {
			if float64(h.Count())*(1-q) < 1 {
				break
			}
			points = append(points, [2]float64{-math.Log10(1 - q), h.Quantile(q).Seconds()})
		}
		points = append(points, [2]float64{math.Log10(float64(h.Count()) + 1), h.Max().Seconds()})
		c.Lines = append(c.Lines, line(name, points))
	}
	return c
}

// rateChart sets what was due against what was answered.
func rateChart(r *Run) Chart {
	var due, answered, failed, refused [][2]float64
	for _, row := range r.Rows {
		span := max(row.Span, 1e-9)
		var ok, bad, full int64
		for _, l := range row.Ops {
			switch n := l.Response.Count(); {
			case l.Done():
				ok += n
			case l.Outcome == NoSpace:
				full += n
			default:
				bad += n
			}
		}
		due = append(due, [2]float64{row.At, float64(row.Due) / span})
		answered = append(answered, [2]float64{row.At, float64(ok) / span})
		failed = append(failed, [2]float64{row.At, float64(bad) / span})
		refused = append(refused, [2]float64{row.At, float64(full) / span})
	}
	c := Chart{Title: "offered and answered", X: "seconds", Unit: "per_second",
		Lines: []Line{line("turns due", due), line("requests answered", answered), line("requests failed", failed)}}
	if l := line("refused for want of space", refused); l.Max > 0 {
		c.Lines = append(c.Lines, l)
	}
	return c
}

// generatorCharts show whether the generator may have been what was slow. Its figures
// have a unit each, so they are a chart each.
func generatorCharts(r *Run) (out []Chart) {
	for _, c := range []struct {
		title, unit string
		of          func(Row) float64
	}{
		{"generator: share of its processors", UnitShare, func(row Row) float64 { return row.CPU }},
		{"generator: turns begun after they were due, 99 of 100", UnitSeconds, func(row Row) float64 { return row.Lag }},
		{"generator: memory", UnitSize, func(row Row) float64 { return float64(row.Memory) }},
	} {
		points := make([][2]float64, len(r.Rows))
		for i, row := range r.Rows {
			points[i] = [2]float64{row.At, c.of(row)}
		}
		if l := line("generator", points); l.Max > 0 { // a system may not tell
			out = append(out, Chart{Title: c.title, X: "seconds", Unit: c.unit, Lines: []Line{l}})
		}
	}
	return out
}

// memberLines has a line for each member that says anything at all.
func memberLines(r *Run, of func(Row, MemberRow) float64) []Line {
	points := map[string][][2]float64{}
	for _, row := range r.Rows {
		for _, m := range row.Members {
			points[m.Name] = append(points[m.Name], [2]float64{row.At, of(row, m)})
		}
	}
	var out []Line
	for name, p := range points {
		if l := line(name, p); l.Max > 0 {
			out = append(out, l)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// perByte sets a member's bytes against those of the keys and values that were
// written in the row.
func perByte(bytes float64, row Row) float64 {
	var written int64
	for _, l := range row.Ops {
		if l.RPC == "txn" && l.Done() {
			written += l.Bytes
		}
	}
	if written == 0 {
		return 0
	}
	return bytes / float64(written)
}
