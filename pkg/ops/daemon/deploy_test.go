package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/schedule"
)

var (
	kvdMetric = regexp.MustCompile(`kvd_[a-z_]+`)
	matcher   = regexp.MustCompile(`(kvd_[a-z_]+)\{([^}]*)\}`)
	pair      = regexp.MustCompile(`([a-z]+)=(~?)"([^"]*)"`)
)

// served returns what a schedule serves from its start: name → label → values.
func served(t *testing.T) map[string]map[string][]string {
	t.Helper()
	s, err := schedule.Parse(schedule.Options{Expr: "@daily"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := newInstruments(Options{Op: "defrag", Version: "test", Schedule: s, Log: zap.NewNop(),
		Gauges: []Gauge{{Name: "known_history_seconds", Help: "x", Value: func() float64 { return 0 }}}})
	m.see(cluster.View{Members: []cluster.Member{{ID: 1, Name: "m1"}}})
	m.memberBytes.WithLabelValues("m1")
	m.memberTook.WithLabelValues("m1")
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string][]string{}
	for _, f := range families {
		labels := map[string][]string{}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		labels["op"] = append(labels["op"], "compact")
		out[f.GetName()] = labels
	}
	return out
}

// TestWhatIsDeployedAsksForWhatIsServed: names and label values in the alert
// rules, the dashboard and the page beside them are those that a schedule serves.
func TestWhatIsDeployedAsksForWhatIsServed(t *testing.T) {
	t.Parallel()
	have := served(t)
	texts := map[string][]string{}
	for _, name := range []string{"alerts.yaml", "alerts-findings.yaml", "alerts_test.yaml", "dashboard.json"} {
		raw, err := os.ReadFile(filepath.Join("../../../docs/deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if strings.HasSuffix(name, ".json") {
			err = json.Unmarshal(raw, &doc)
		} else {
			err = yaml.Unmarshal(raw, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = stringsIn(doc)
	}
	used := map[string]bool{}
	for file, all := range texts {
		for _, text := range all {
			for _, name := range kvdMetric.FindAllString(text, -1) {
				if have[name] == nil {
					t.Errorf("%s asks for %s, which is not served", file, name)
				}
				used[name] = true
			}
			for _, m := range matcher.FindAllStringSubmatch(text, -1) {
				for _, p := range pair.FindAllStringSubmatch(m[2], -1) {
					if p[1] == "instance" || strings.HasPrefix(p[3], "$") {
						continue
					}
					for _, v := range strings.Split(p[3], "|") {
						if !slices.Contains(have[m[1]][p[1]], v) {
							t.Errorf("%s: %s has no %s=%q, only %v", file, m[1], p[1], v, have[m[1]][p[1]])
						}
					}
				}
			}
		}
	}
	if len(used) < 10 {
		t.Errorf("only %d metrics are used: %v", len(used), used)
	}
	page, err := os.ReadFile("../../../docs/deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, labels := range have {
		short := strings.TrimPrefix(name, "kvd_schedule")
		if name != "kvd_build_info" && !strings.Contains(string(page), name) && !strings.Contains(string(page), "…"+short) {
			t.Errorf("docs/deploy/README.md does not name %s", name)
		}
		for _, v := range append(labels["reason"], labels["outcome"]...) {
			if !strings.Contains(string(page), "`"+v+"`") {
				t.Errorf("docs/deploy/README.md does not name %q of %s", v, name)
			}
		}
	}
}

// stringsIn lists the strings in a document.
func stringsIn(doc any) []string {
	var out []string
	switch d := doc.(type) {
	case string:
		out = append(out, d)
	case map[string]any:
		for _, v := range d {
			out = append(out, stringsIn(v)...)
		}
	case []any:
		for _, v := range d {
			out = append(out, stringsIn(v)...)
		}
	}
	return out
}
