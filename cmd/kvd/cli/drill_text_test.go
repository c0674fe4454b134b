package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kvd/cmd/kvd/drill"
)

// recordedDrills are reports of real runs, as -o json printed them.
func recordedDrills(t *testing.T, name string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/drill-" + name + "*.json")
	if err != nil || len(paths) < 2 {
		t.Fatalf("recorded reports: %v, %v", paths, err)
	}
	out := map[string][]byte{}
	for _, path := range paths {
		if out[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// storyOf tells a recorded report.
func storyOf(t *testing.T, raw []byte) string {
	t.Helper()
	var head struct{ Drill string }
	if err := json.Unmarshal(raw, &head); err != nil {
		t.Fatal(err)
	}
	switch {
	case strings.HasPrefix(head.Drill, "nospace"):
		return told(t, raw, tellNospace)
	case strings.HasPrefix(head.Drill, "crash"):
		return told(t, raw, tellCrash)
	case strings.HasPrefix(head.Drill, "stale-read"):
		return told(t, raw, tellStale)
	case strings.HasPrefix(head.Drill, "restore"):
		return told(t, raw, tellRestore)
	}
	t.Fatalf("a story of %q", head.Drill)
	return ""
}

func told[R any](t *testing.T, raw []byte, tell func(io.Writer, R, drill.Phase) error) string {
	t.Helper()
	var r R
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, p := range []drill.Phase{drill.PhaseReproduce, drill.PhaseDiagnose, drill.PhaseRemedy, drill.PhaseProve, drill.PhaseEnd} {
		if err := tell(&b, r, p); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// No number in the story of a drill is the story's own: take the numbers out of
// the report, and none is left in the story.
func TestDrillNumbersAreTheReports(t *testing.T) {
	digits := regexp.MustCompile(`[1-9]`)
	for path, raw := range recordedDrills(t, "") {
		if n := len(digits.FindAllString(storyOf(t, raw), -1)); n < 60 {
			t.Errorf("%s: a story with only %d digits", path, n)
		}
		var report any
		if err := json.Unmarshal(raw, &report); err != nil {
			t.Fatal(err)
		}
		bare, err := json.Marshal(without(report))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(storyOf(t, bare)) {
			if digits.MatchString(line) {
				t.Errorf("%s: a number that is not in the report: %s", path, line)
			}
		}
	}
}

// without returns a JSON value with 0 for every number and a letter for every
// digit in its strings.
func without(v any) any {
	switch x := v.(type) {
	case float64:
		return 0
	case string:
		return regexp.MustCompile(`[0-9]`).ReplaceAllString(x, "a")
	case []any:
		for i := range x {
			x[i] = without(x[i])
		}
	case map[string]any:
		for name := range maps.Clone(x) {
			if x[name] = without(x[name]); name == "started_at" {
				delete(x, name) // a date without digits is none
			}
		}
	}
	return v
}

// What matters is in the story: each of these numbers of the report is told.
func TestDrillStoryTells(t *testing.T) {
	for path, raw := range recordedDrills(t, "nospace") {
		var r drill.Report
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		story := storyOf(t, raw)
		want := []string{r.RefusedWriteError, r.Compactor.Key, string(r.Outcome), r.Remedy}
		for _, a := range append(slices.Clone(r.Refused), r.StillSaid...) {
			want = append(want, a.Error)
		}
		for _, s := range r.Sizes[1:] { // empty files are no news
			for _, m := range s.Members {
				want = append(want, sizeText(m.DBSize), sizeText(m.DBInUse))
			}
		}
		for _, a := range r.Alarms {
			want = append(want, a.Type+" of "+a.MemberName)
		}
		r.Missing = []string{"the one thing"}
		for _, text := range want {
			if !strings.Contains(story, text) {
				t.Errorf("%s: %q is not told", path, text)
			}
		}
		var b bytes.Buffer
		if err := tellNospace(&b, r, drill.PhaseEnd); err != nil || !strings.Contains(b.String(), "the one thing") {
			t.Errorf("%s: what is missing is not told: %s", path, &b)
		}
	}
}

// What matters of a crash is in its story.
func TestCrashStoryTells(t *testing.T) {
	for path, raw := range recordedDrills(t, "crash") {
		var r drill.CrashReport
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		story := storyOf(t, raw)
		want := []string{string(r.Outcome), fmt.Sprint(r.Load.Acknowledged), fmt.Sprint(r.Load.LastRevision), r.Kill}
		for i, f := range r.Files {
			for _, n := range []any{f.ConsistentIndex, f.LastIndex, f.Commit, f.AckedInLog, r.Starts[i].Applied, r.Killed[i].Fsyncs, r.Killed[i].Commits} {
				want = append(want, fmt.Sprint(n))
			}
		}
		for _, text := range want {
			if !strings.Contains(story, text) {
				t.Errorf("%s: %q is not told", path, text)
			}
		}
	}
}

// What matters of stale reads is in their story.
func TestStaleStoryTells(t *testing.T) {
	for path, raw := range recordedDrills(t, "stale-read") {
		var r drill.StaleReport
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		story := storyOf(t, raw)
		want := []string{string(r.Outcome), seconds(r.AgeSeconds), seconds(r.CaughtUpSeconds), fmt.Sprint(r.CutRevision), fmt.Sprint(r.HeadRevision - 1)}
		for _, x := range r.Refused {
			want = append(want, x.Error, x.Asked)
		}
		for _, k := range slices.Concat(r.Before.Reads, r.During.Reads, r.After.Reads) {
			want = append(want, fmt.Sprint(k.Old), fmt.Sprint(k.Fresh), fmt.Sprint(k.Behind))
		}
		for _, text := range want {
			if !strings.Contains(story, text) {
				t.Errorf("%s: %q is not told", path, text)
			}
		}
	}
}

// What matters of a restore is in its story.
func TestRestoreStoryTells(t *testing.T) {
	for path, raw := range recordedDrills(t, "restore") {
		var r drill.RestoreReport
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		story := storyOf(t, raw)
		want := []string{string(r.Outcome), fmt.Sprint(r.Watcher.Revision), fmt.Sprint(r.Watcher.Events), fmt.Sprint(r.Proof.HighestSeen),
			fmt.Sprint(r.Diagnosis.Ahead), fmt.Sprint(r.Diagnosis.Lost), r.Plain.Get.Error, r.Bumped.Get.Error, r.Bumped.Watch.Error,
			fmt.Sprint(r.Bumped.Watch.CompactRevision), fmt.Sprint(r.Relist.Revision)}
		for _, w := range r.Diagnosis.Examples {
			want = append(want, fmt.Sprintf("revision %d  %s", w.Revision, w.Key))
		}
		for _, a := range slices.Concat(r.Plain.Writes, r.Bumped.Writes, r.Proof.Writes) {
			want = append(want, fmt.Sprintf("written at revision %d", a.Revision))
		}
		for _, m := range r.Proof.Members {
			want = append(want, fmt.Sprint(m.Equal), fmt.Sprint(m.Hash))
		}
		for _, l := range r.Proof.Leases {
			want = append(want, l.ID)
		}
		for _, text := range want {
			if !strings.Contains(story, text) {
				t.Errorf("%s: %q is not told", path, text)
			}
		}
	}
}
