package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/diagnose"
)

// diagnosisTable draws a report: what is wrong, by severity; what is good; what
// could not be looked at.
func diagnosisTable(r diagnose.Report) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintln(w, diagnosisLine(r))
		var last diagnose.Severity
		for _, f := range r.Findings {
			if f.Severity != last {
				last = f.Severity
				fmt.Fprintf(w, "\n%s\n", strings.ToUpper(string(last)))
			}
			writeFinding(w, f)
		}
		if err := errors.Join(dirsTable(w, r), writeGood(w, r)); err != nil {
			return err
		}
		if not := r.Grouped(); len(not) > 0 {
			fmt.Fprintln(w, "\nNOT LOOKED AT")
			for _, n := range not {
				who := ""
				if n.Subject != "" {
					who = " of " + n.Subject
				}
				hint := ""
				if n.Hint != "" {
					hint = " (" + n.Hint + ")"
				}
				fmt.Fprintf(w, "  %s%s: %s%s\n", n.Check, render.Safe(who), render.Safe(n.Why), render.Safe(hint))
			}
		}
		if len(r.Asked) > 0 {
			fmt.Fprintf(w, "\nsent: %s\n", askedLine(r))
		}
		return nil
	}
}

func diagnosisLine(r diagnose.Report) string {
	n := map[diagnose.Severity]int{}
	for _, f := range r.Findings {
		n[f.Severity]++
	}
	what := fmt.Sprintf("%d critical, %s, %d info", n[diagnose.Critical], count(n[diagnose.Warning], "warning"), n[diagnose.Info])
	if len(r.Findings) == 0 {
		what = "nothing wrong was found"
	}
	where := ""
	if r.ClusterID != "" {
		where = "cluster " + r.ClusterID + ": "
	}
	samples := ""
	if r.Interval > 0 {
		samples = fmt.Sprintf("; two samples, %s apart", seconds(r.Interval))
	}
	return render.Safe(where + what + samples)
}

func writeFinding(w io.Writer, f diagnose.Finding) {
	fmt.Fprintf(w, "%s  %s\n  %s\n", f.ID, render.Safe(f.Subject), render.Safe(f.Summary))
	if len(f.ExplainedBy) > 0 {
		fmt.Fprintf(w, "  explained by: %s\n", strings.Join(f.ExplainedBy, ", "))
	}
	for i, e := range f.Evidence {
		fmt.Fprintf(w, "  %-9s %s: %s (%s)\n", onlyFirst(i, "evidence:"), render.Safe(e.What), render.Safe(e.Shown()), render.Safe(e.Source))
	}
	fmt.Fprintf(w, "  %-9s %s\n", "why:", f.Why)
	for i, s := range f.Next {
		fmt.Fprintf(w, "  %-9s %s\n", onlyFirst(i, "next:"), render.Safe(s.Line()))
	}
	fmt.Fprintf(w, "  %-9s %s\n", "page:", f.Page)
}

func onlyFirst(i int, s string) string {
	if i > 0 {
		return ""
	}
	return s
}

// writeGood tells what was checked and found good: with numbers where nothing else
// is to be said, so that all of it fits a screen.
func writeGood(w io.Writer, r diagnose.Report) error {
	var good []diagnose.Result
	var names []string
	for _, c := range r.Checks {
		if c.Findings == 0 && !c.Partly {
			good, names = append(good, c), append(names, c.Check)
		}
	}
	if len(good) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nCHECKED AND GOOD")
	if len(r.Findings) > 0 {
		fmt.Fprintf(w, "  %s\n", strings.Join(names, ", "))
		return nil
	}
	return render.Columns[diagnose.Result]{
		{Header: "check", Value: func(c diagnose.Result) string { return c.Check }},
		{Header: "measured", Value: func(c diagnose.Result) string { return c.Measured }},
	}.Write(w, good)
}

func askedLine(r diagnose.Report) string {
	var out []string
	for _, a := range r.Asked {
		out = append(out, fmt.Sprintf("%d × %s", a.Count, a.What))
	}
	return render.Safe(strings.Join(out, ", "))
}

// limitsTable draws the limits with their sources.
func limitsTable(l diagnose.Limits) func(io.Writer) error {
	return func(w io.Writer) error {
		return render.Columns[diagnose.Limit]{
			{Header: "limit", Value: func(x diagnose.Limit) string { return x.Name }},
			{Header: "value", Right: true, Value: func(x diagnose.Limit) string { return x.Unit.Show(*x.Value) }},
			{Header: "of", Wrap: 50, Value: func(x diagnose.Limit) string { return x.What }},
			{Header: "source", Wrap: 60, Value: func(x diagnose.Limit) string { return x.Source }},
		}.Write(w, l.Table())
	}
}
