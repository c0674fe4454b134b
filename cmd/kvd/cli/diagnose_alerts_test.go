package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kvd/pkg/diagnose"
)

const alertsFile = "alerts-findings.yaml"

// TestAlertRules holds the rules of docs/deploy against the limits that they are
// made of.
func TestAlertRules(t *testing.T) {
	var want bytes.Buffer
	if err := alertRules(diagnose.Alerts(diagnose.DefaultLimits()))(&want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(docsDir, "deploy", alertsFile)
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("docs/deploy/%s is not what the limits make of it (%v): run `make docs`", alertsFile, err)
	}
}

// ruleFile is a file of rules as Prometheus reads it.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// What is written is what was meant: each rule as YAML reads it again.
func TestAlertRulesAreYAML(t *testing.T) {
	all := diagnose.Alerts(diagnose.DefaultLimits())
	var text bytes.Buffer
	if err := alertRules(all)(&text); err != nil {
		t.Fatal(err)
	}
	var file ruleFile
	if err := yaml.UnmarshalStrict(text.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) != len(all) {
		t.Fatalf("%+v", file)
	}
	for i, r := range file.Groups[0].Rules {
		a := all[i]
		if r.Alert != a.Name || r.Expr != a.Expr || r.For != a.For || r.Labels["severity"] != string(a.Severity) || r.Annotations["summary"] != a.Summary ||
			r.Annotations["finding"] != a.Finding || r.Annotations["next"] != a.Next || r.Annotations["page"] != "docs/findings/"+a.Finding+".md" {
			t.Errorf("%+v\nis read as\n%+v", a, r)
		}
		if a.Runbook != "" {
			if _, err := os.Stat(filepath.Join(docsDir, "..", a.Runbook)); err != nil {
				t.Errorf("%s: %v", a.Name, err)
			}
		}
		runs(t, a.Name, a.Next)
	}
}

// runs fails the test unless a command line is one of kvd's.
func runs(t *testing.T, what, line string) {
	t.Helper()
	words := strings.Fields(line)
	if words[0] != "kvd" {
		t.Errorf("%s: %q is no command of kvd", what, line)
		return
	}
	cmd, rest, err := testRoot().Find(words[1:])
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil || !cmd.Runnable() {
		t.Errorf("%s: %q: %v", what, line, err)
	}
}

// Each rule has a unit test in which it fires, and one in which it does not.
func TestAlertRulesAreTested(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(docsDir, "deploy", "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		RuleFiles []string `json:"rule_files"`
		Tests     []struct {
			Cases []struct {
				Alert  string `json:"alertname"`
				Alerts []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(file.RuleFiles, alertsFile) {
		t.Errorf("alerts_test.yaml does not load %s", alertsFile)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Alerts) > 0 {
				fires[c.Alert] = true
			} else {
				silent[c.Alert] = true
			}
		}
	}
	for _, a := range diagnose.Alerts(diagnose.DefaultLimits()) {
		if !fires[a.Name] || !silent[a.Name] {
			t.Errorf("%s: fires in a test: %v, is silent in one: %v", a.Name, fires[a.Name], silent[a.Name])
		}
	}
}
