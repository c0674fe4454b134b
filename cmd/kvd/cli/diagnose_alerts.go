package cli

import (
	"fmt"
	"io"
	"strings"

	"kvd/pkg/diagnose"
)

// alertRules writes rules for Prometheus. docs/deploy/alerts-findings.yaml is made of
// it, with the limits that kvd has by itself.
func alertRules(all []diagnose.Alert) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprint(w, `# Prometheus alert rules that fire where kvd diagnose would give a finding, at its
# limits (kvd diagnose --explain). Written by kvd diagnose --alerts; do not edit.
# A cluster is what has one value of the label job; an instance is a member.
groups:
  - name: etcd-findings
    rules:
`)
		for _, a := range all {
			fmt.Fprintf(w, "      - alert: %s\n        expr: %s\n        for: %s\n        labels: {severity: %s}\n        annotations:\n", a.Name, quoted(a.Expr), a.For, a.Severity)
			fmt.Fprintf(w, "          summary: %s\n          finding: %s\n          next: %s\n          page: docs/findings/%s.md\n", quoted(a.Summary), a.Finding, a.Next, a.Finding)
			if a.Runbook != "" {
				fmt.Fprintf(w, "          runbook: %s\n", a.Runbook)
			}
		}
		return nil
	}
}

// quoted is a string of YAML in which nothing but the quote is special.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
