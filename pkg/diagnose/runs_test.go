package diagnose_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/progress"
)

// discard is where a library tells of itself.
var discard = progress.Discard

// Run is what a test has shown of a finding. docs/findings is made from it (make
// findings).
type Run struct {
	Test     string           `json:"test"`
	Bad      diagnose.Finding `json:"bad"`
	Remedy   []string         `json:"remedy"`
	Good     string           `json:"good,omitempty"`     // what the same check measured afterwards
	Controls []string         `json:"controls,omitempty"` // what looks like it and gives nothing
}

// recordEnv names a folder that runs are written to.
const recordEnv = "KVD_RECORD_RUNS"

// remedied fails the test where a finding is still there after its remedy, and
// records both for the finding's page.
func remedied(t *testing.T, id string, bad, good diagnose.Report, remedy ...string) {
	t.Helper()
	f := finding(t, bad, id)
	if good.Has(id) {
		t.Errorf("%s is still there after %q", id, remedy)
	}
	record(t, Run{Test: t.Name(), Bad: f, Remedy: remedy, Good: measured(good, id), Controls: controls(id)})
}

// shows records a finding whose remedy a case does not carry out.
func shows(t *testing.T, r diagnose.Report, id string) {
	t.Helper()
	f := finding(t, r, id)
	record(t, Run{Test: t.Name(), Bad: f, Remedy: f.Remedy, Controls: controls(id)})
}

// measured is what the checks that may give a finding say where they do not.
func measured(r diagnose.Report, id string) string {
	for _, c := range diagnose.Checks() {
		for _, m := range r.Checks {
			if m.Check == c.Name && slices.Contains(c.IDs, id) && m.Measured != "" {
				return m.Check + ": " + m.Measured
			}
		}
	}
	return "it is not there any more"
}

// controls are the inputs of the table that look like a finding and give none: those
// that stand with one that gives it.
func controls(id string) []string {
	group := func(f fixture) string {
		name, _, _ := strings.Cut(f.name, ":")
		return name
	}
	gives := map[string]bool{}
	for _, f := range fixtures() {
		gives[group(f)] = gives[group(f)] || slices.ContainsFunc(f.want, func(w string) bool { return strings.HasPrefix(w, id) })
	}
	var out []string
	for _, f := range fixtures() {
		if gives[group(f)] && len(f.want) == 0 {
			out = append(out, f.name)
		}
	}
	return out
}

// scratch is a test's folder, whose name is of no interest.
var scratch = regexp.MustCompile(`/[^" ]*/Test[^/" ]*/\d{3}`)

func record(t *testing.T, r Run) {
	t.Helper()
	dir := os.Getenv(recordEnv)
	if dir == "" {
		return
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, r.Bad.ID+".json"), append(scratch.ReplaceAll(raw, []byte("/test")), '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRecordFixtures records the findings that no case on real servers has recorded,
// from the table of inputs.
func TestRecordFixtures(t *testing.T) {
	dir := os.Getenv(recordEnv)
	if dir == "" {
		t.Skip("only where " + recordEnv + " is set")
	}
	done := map[string]bool{}
	for _, f := range fixtures() {
		w := healthy()
		f.change(w)
		r := diagnose.Diagnose(w.input(t))
		for _, x := range r.Findings {
			if _, err := os.Stat(filepath.Join(dir, x.ID+".json")); err == nil && !done[x.ID] || done[x.ID] {
				continue
			}
			done[x.ID] = true
			record(t, Run{Test: "TestFixtures/" + f.name, Bad: x, Remedy: x.Remedy, Good: measured(diagnose.Diagnose(healthy().input(t)), x.ID), Controls: controls(x.ID)})
		}
	}
}
