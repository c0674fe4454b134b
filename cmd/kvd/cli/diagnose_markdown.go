package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/diagnose"
)

// diagnosisMarkdown writes a report for a ticket.
func diagnosisMarkdown(r diagnose.Report) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintf(w, "## kvd diagnose, %s\n\n%s\n", r.At.UTC().Format(time.RFC3339), inMarkdown(diagnosisLine(r)))
		for _, f := range r.Findings {
			fmt.Fprintf(w, "\n### %s (%s): %s\n\n%s.\n", f.ID, f.Severity, inMarkdown(f.Subject), inMarkdown(f.Summary))
			if len(f.ExplainedBy) > 0 {
				fmt.Fprintf(w, "Explained by %s.\n", strings.Join(f.ExplainedBy, ", "))
			}
			fmt.Fprintf(w, "\n| evidence | | source |\n|---|---|---|\n")
			for _, e := range f.Evidence {
				fmt.Fprintf(w, "| %s | %s | %s |\n", inMarkdown(e.What), inMarkdown(e.Shown()), inMarkdown(e.Source))
			}
			fmt.Fprintf(w, "\nWhy it matters: %s.\n\nNext:\n", f.Why)
			for i, s := range f.Next {
				fmt.Fprintf(w, "%d. %s\n", i+1, stepInMarkdown(s))
			}
		}
		fmt.Fprint(w, "\n### Checked\n\n| check | findings | measured |\n|---|---|---|\n")
		for _, c := range r.Checks {
			part := ""
			if c.Partly {
				part = ", not all of it"
			}
			fmt.Fprintf(w, "| %s | %d%s | %s |\n", c.Check, c.Findings, part, inMarkdown(c.Measured))
		}
		for i, n := range r.Grouped() {
			if i == 0 {
				fmt.Fprint(w, "\n### Not looked at\n\n")
			}
			fmt.Fprintf(w, "- %s: %s\n", n.Check, inMarkdown(strings.TrimSpace(n.Subject+" "+n.Why)))
		}
		return nil
	}
}

// stepInMarkdown sets a command as code, so that it can be copied as it is.
func stepInMarkdown(s diagnose.Step) string {
	switch {
	case s.Command == "" || strings.Contains(s.Command, "`"):
		return inMarkdown(s.Line())
	case s.Purpose == "":
		return "`" + render.Safe(s.Command) + "`"
	}
	return "`" + render.Safe(s.Command) + "`: " + inMarkdown(s.Purpose)
}

// inMarkdown makes text safe for a terminal, and keeps it from being anything but
// text in Markdown.
func inMarkdown(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "`", "'", "_", `\_`, "[", `\[`).Replace(render.Safe(s))
}
