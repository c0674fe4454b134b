package cli

import (
	"fmt"
	"io"

	"kvd/cmd/kvd/cli/render"
	"kvd/cmd/kvd/drill"
	"kvd/pkg/diagnose"
)

// tellPain tells one phase of the drill of a load.
func tellPain(w io.Writer, r drill.PainReport, p drill.Phase) error {
	t := &teller{w: w}
	switch p {
	case drill.PhaseReproduce:
		t.say("REPRODUCE: %s", r.Pain.What)
		t.painRun(r, r.Pain)
	case drill.PhaseDiagnose:
		t.say("DIAGNOSE: what kvd diagnose sees while that load runs")
		t.said(r.Diagnosed)
		t.evidence(r.Diagnosed, r.Symptom)
	case drill.PhaseRemedy:
		t.say("REMEDY: %s", r.Remedied.What)
		t.painRun(r, r.Remedied)
	case drill.PhaseProve:
		t.say("PROVE: one against the other, and kvd diagnose again, while the remedied load ran")
		rows(t, figureColumns(), r.Figures)
		t.said(r.DiagnosedAfter)
	case drill.PhaseEnd:
		t.end(r.Ending)
	}
	return t.err
}

func (t *teller) painRun(r drill.PainReport, run drill.PainRun) {
	t.say("%s, ready after %s. By hand: %s", count(r.Members, "member"), seconds(run.StartSeconds), run.Command)
	rows(t, reportColumns(), run.Moved)
	if s := run.Stall; s != nil && s.Seconds > 0 {
		t.say("%s, %s, stood still (SIGSTOP) for %s, from %s after the load began.", s.Member, s.Role, seconds(s.Seconds), seconds(s.AtSeconds))
	}
	l := run.Load
	if l.Offered.Due == 0 {
		return
	}
	t.say("%s measured, schedule %s:", spanText(l.Measured), l.Schedule)
	rows(t, requestColumns(), l.Requests)
	rows(t, serverColumns(l.Measured), l.Servers)
	for _, limit := range l.Generator.Limits {
		t.say("Its times say nothing of the server: %s.", limit)
	}
	if len(l.Generator.Limits) > 0 {
		t.gap()
	}
}

// evidence tells what the finding of a drill rests on.
func (t *teller) evidence(s *drill.Said, id string) {
	if s == nil {
		return
	}
	for _, f := range s.Findings {
		if f.ID != id {
			continue
		}
		t.say("What %s of %s rests on:", id, f.Subject)
		rows(t, evidenceColumns(), f.Evidence)
		t.say("Next, it says: %s. See %s.", f.Next[0].Line(), f.Page)
		t.gap()
	}
}

func evidenceColumns() render.Columns[diagnose.Evidence] {
	return render.Columns[diagnose.Evidence]{
		{Header: "evidence", Value: func(e diagnose.Evidence) string { return e.What }},
		{Header: "value", Right: true, Value: diagnose.Evidence.Shown},
		{Header: "source", Value: func(e diagnose.Evidence) string { return e.Source }},
	}
}

func figureColumns() render.Columns[drill.Figure] {
	type row = drill.Figure
	return render.Columns[row]{
		{Header: "figure", Value: func(f row) string { return f.What }},
		{Header: "pain", Right: true, Value: func(f row) string { return figureShown(f, f.Pain) }},
		{Header: "remedied", Right: true, Value: func(f row) string { return figureShown(f, f.Remedied) }},
		{Header: "times", Right: true, Value: func(f row) string {
			if f.Remedied == 0 || f.Pain == 0 && f.Unit == diagnose.Seconds {
				return "-"
			}
			return fmt.Sprintf("%.2f", f.Times)
		}},
		{Header: "wanted", Right: true, Value: func(f row) string { return orDash(f.Want()) }},
		{Header: "verdict", Value: func(f row) string { return f.Verdict }},
		{Header: "from", Value: func(f row) string { return f.From }},
	}
}

// figureShown shows one side of a figure. No request takes no time at all: a time of 0 is
// one of requests that had no answer.
func figureShown(f drill.Figure, v float64) string {
	if v == 0 && f.Unit == diagnose.Seconds {
		return "-"
	}
	return f.Unit.Show(v)
}
