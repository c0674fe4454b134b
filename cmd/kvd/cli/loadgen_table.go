package cli

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/loadgen/result"
)

func (a *App) printLoad(r result.Report) error {
	return a.Print(r, func(w io.Writer) error { return drawLoad(w, r) })
}

// drawLoad draws the report of a run.
func drawLoad(w io.Writer, r result.Report) error {
	fmt.Fprintf(w, "%s: %s measured, %s turns due (%.1f/s), %s begun, %s left out\n", render.Safe(r.Scenario), spanText(r.Measured),
		humanize.Comma(r.Offered.Due), r.Offered.Rate, humanize.Comma(r.Offered.Sent), humanize.Comma(r.Offered.Dropped))
	fmt.Fprintf(w, "schedule %s, seed %d, %s, %s\n", r.Schedule, r.Seed, count(r.Actors, "actor"), count(r.Connections, "connection"))
	if err := requestColumns().Write(w, r.Requests); err != nil {
		return err
	}
	if len(r.Servers) > 0 {
		fmt.Fprintln(w)
		if err := serverColumns(r.Measured).Write(w, r.Servers); err != nil {
			return err
		}
	}
	for _, l := range loadNotes(r) {
		fmt.Fprintln(w, render.Safe(l))
	}
	return nil
}

func requestColumns() render.Columns[result.Request] {
	type row = result.Request
	return render.Columns[row]{
		{Header: "request", Value: func(r row) string { return r.Name() }},
		{Header: "outcome", Value: func(r row) string { return r.Outcome }},
		{Header: "count", Right: true, Value: func(r row) string { return humanize.Comma(r.Count) }},
		{Header: "per s", Right: true, Value: func(r row) string { return fmt.Sprintf("%.1f", r.Rate) }},
		{Header: "bytes", Right: true, Value: func(r row) string { return sizeText(r.Bytes) }},
		{Header: "p50", Right: true, Value: func(r row) string { return latencyText(r.P50) }},
		{Header: "p90", Right: true, Value: func(r row) string { return latencyText(r.P90) }},
		{Header: "p99", Right: true, Value: func(r row) string { return latencyText(r.P99) }},
		{Header: "p99.9", Right: true, Value: func(r row) string {
			if r.P999 == nil {
				return "-"
			}
			return latencyText(*r.P999)
		}},
		{Header: "max", Right: true, Value: func(r row) string { return latencyText(r.Max) }},
		{Header: "service p99", Right: true, Value: func(r row) string { return latencyText(r.Service) }},
	}
}

func serverColumns(seconds float64) render.Columns[result.MemberTotals] {
	type row = result.MemberTotals
	rate := func(n float64) string { return sizeText(int64(n/max(seconds, 1e-9))) + "/s" }
	return render.Columns[row]{
		{Header: "member", Value: func(r row) string { return r.Name }},
		{Header: "db", Right: true, Value: func(r row) string { return sizeText(r.DBBefore) + " → " + sizeText(r.DBAfter) }},
		{Header: "in use", Right: true, Value: func(r row) string { return sizeText(r.InUseBefore) + " → " + sizeText(r.InUseAfter) }},
		{Header: "memory", Right: true, Value: func(r row) string { return sizeText(r.MemoryPeak) }},
		{Header: "cpu", Right: true, Value: func(r row) string { return fmt.Sprintf("%.2f", r.CPU/max(seconds, 1e-9)) }},
		{Header: "fsync p99", Right: true, Value: func(r row) string { return latencyText(r.FsyncP99) }},
		{Header: "commit p99", Right: true, Value: func(r row) string { return latencyText(r.CommitP99) }},
		{Header: "to log", Right: true, Value: func(r row) string { return rate(r.WALBytes) }},
		{Header: "to peers", Right: true, Value: func(r row) string { return rate(r.PeerBytes) }},
		{Header: "to clients", Right: true, Value: func(r row) string { return rate(r.ClientBytes) }},
		{Header: "elections", Right: true, Value: func(r row) string { return fmt.Sprint(r.LeaderChanges) }},
		{Header: "slow applies", Right: true, Value: func(r row) string { return fmt.Sprint(r.SlowApplies) }},
	}
}

// loadNotes is what there is to say below the tables.
func loadNotes(r result.Report) []string {
	var out []string
	if why := result.StoppedText(r.Stopped); why != "" && r.Full == nil {
		out = append(out, fmt.Sprintf("this run ended before its time, after %s of the measurement: %s", spanText(r.Measured), why))
	}
	silent, dead := withoutMetrics(r)
	if len(silent) > 0 {
		out = append(out, fmt.Sprintf("no metrics of %s: what the load cost there is not known (--metrics-url NAME=URL says where they are)", strings.Join(silent, ", ")))
	}
	if len(dead) > 0 {
		out = append(out, strings.Join(dead, ", ")+" did not answer when the run began, and has told nothing since")
	}
	if p := r.PerByte; p != nil {
		out = append(out, fmt.Sprintf("for each byte written: %.2f to the log and %.2f to peers, all members together", p.Log, p.Peers))
	}
	var counters []string
	for name, n := range r.Counters {
		counters = append(counters, fmt.Sprintf("%s %.0f", name, n))
	}
	sort.Strings(counters)
	if len(counters) > 0 {
		out = append(out, strings.Join(counters, ", "))
	}
	for _, c := range r.Causes {
		out = append(out, fmt.Sprintf("failed, %s times: %s (%s)", humanize.Comma(c.Count), c.First, c.Cause))
	}
	if f := r.Full; f != nil {
		out = append(out, fmt.Sprintf("quota reached after %s writes of %s, at %s; refused: %s (%s)",
			humanize.Comma(f.Writes), sizeText(f.Bytes), spanText(f.At), humanize.Comma(f.Refused), f.Words))
	}
	for _, e := range r.Events {
		if e.What != "nospace" {
			out = append(out, fmt.Sprintf("at %s: %s %s", spanText(e.At), strings.ReplaceAll(e.What, "_", " "), e.Text))
		}
	}
	if len(r.Mix) > 0 {
		var parts []string
		for _, m := range r.Mix {
			parts = append(parts, fmt.Sprintf("%s %.3g (%.3g)", m.Name, m.Sent, m.Model))
		}
		out = append(out, "sent a second, and by the model of such a cluster: "+strings.Join(parts, ", "))
	}
	for _, t := range r.Trends {
		var shown []string
		for _, v := range t.Fifths {
			shown = append(shown, result.ShowValue(v, t.Unit))
		}
		out = append(out, fmt.Sprintf("not at rest yet: %s, in each fifth of the measurement: %s", t.Figure, strings.Join(shown, ", ")))
	}
	out = append(out, fmt.Sprintf("generator: %.0f %% of its processors, turns begun %s after they were due (99 of 100), %s of memory",
		100*r.Generator.CPU, latencyText(r.Generator.LagP99), sizeText(r.Generator.Memory)))
	for _, j := range r.Objectives {
		line := fmt.Sprintf("objective %s: %s", j.Objective, j.Verdict)
		if s := j.Shown + j.Why; s != "" {
			line += " (" + s + ")"
		}
		out = append(out, line)
	}
	return out
}

// withoutMetrics are the members that told nothing of themselves in the whole measurement,
// and those of them that had not told their status before it either.
func withoutMetrics(r result.Report) (silent, dead []string) {
	for _, m := range r.Members {
		told := slices.ContainsFunc(r.Servers, func(s result.MemberTotals) bool { return s.Name == m.Name })
		switch {
		case told || m.Name == "": // not started
		case m.Version == "":
			dead = append(dead, m.Name)
		default:
			silent = append(silent, m.Name)
		}
	}
	return silent, dead
}

// latencyText shows a time in three digits or so.
func latencyText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d == 0:
		return "-"
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

func spanText(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}
