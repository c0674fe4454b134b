package diagnose_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wal"
)

// sample writes a file with metrics of one member.
func sample(t *testing.T, name string, at time.Time, began, puts, reads string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	text := `# TYPE etcd_server_id gauge
etcd_server_id{server_id="abc"} 1
# TYPE process_start_time_seconds gauge
process_start_time_seconds ` + began + `
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total ` + puts + `
# TYPE etcd_mvcc_put_total counter
etcd_mvcc_put_total ` + puts + `
# TYPE etcd_mvcc_range_total counter
etcd_mvcc_range_total ` + reads + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return path
}

// Two files are ordered by what is in them; two that cannot be two samples are refused.
func TestMetricsOrder(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		then, now string // as written
		swap      bool
		refused   string
	}{
		"one minute apart":           {then: sample(t, "a", noon, "1000", "5", "5"), now: sample(t, "b", noon.Add(time.Minute), "1000", "9", "9")},
		"named the other way around": {then: sample(t, "a", noon, "1000", "5", "5"), now: sample(t, "b", noon.Add(time.Minute), "1000", "9", "9"), swap: true},
		"a restart in between":       {then: sample(t, "a", noon, "1000", "5", "5"), now: sample(t, "b", noon.Add(time.Minute), "1030", "1", "9")},
		"a quick restart":            {then: sample(t, "a", noon, "1000", "5", "5"), now: sample(t, "b", noon.Add(500*time.Millisecond), "1000.4", "1", "9")},
		"the same time":              {then: sample(t, "a", noon, "1000", "5", "5"), now: sample(t, "b", noon, "1000", "9", "9"), refused: "0 s apart"},
		"times in the other order":   {then: sample(t, "a", noon.Add(time.Minute), "1000", "5", "5"), now: sample(t, "b", noon, "1000", "9", "9"), refused: "in the other order"},
		"a copy of it":               {then: sample(t, "a", noon, "1000", "5", "5"), now: sample(t, "b", noon.Add(time.Minute), "1000", "5", "5"), refused: "one sample twice"},
		"counters that go back":      {then: sample(t, "a", noon, "1000", "5", "5"), now: sample(t, "b", noon.Add(time.Minute), "1000", "9", "4"), refused: "etcd_mvcc_range_total has fallen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := &diagnose.Input{Limits: diagnose.DefaultLimits()}
			files := []string{c.then, c.now}
			if c.swap {
				files = []string{c.now, c.then}
			}
			err := in.AddMetrics(files)
			if c.refused != "" {
				if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.refused) || fault.HintOf(err) == "" {
					t.Errorf("%v, hint %q", err, fault.HintOf(err))
				}
				return
			}
			if err != nil || in.Before.View.Members[0].Name != c.then || in.Now.View.Members[0].Name != c.now {
				t.Errorf("%v: before %+v, now %+v", err, in.Before, in.Now)
			}
		})
	}
	once := sample(t, "a", noon, "1000", "5", "5")
	if err := (&diagnose.Input{}).AddMetrics([]string{once, once}); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("the same file twice: %v", err)
	}
}

func TestMetricsOfSomethingElse(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"empty": "", "an API server": "# TYPE etcd_request_duration_seconds counter\netcd_request_duration_seconds 1\n"} {
		path := filepath.Join(t.TempDir(), "m.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := (&diagnose.Input{}).AddMetrics([]string{path})
		if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "no etcd series") || !strings.Contains(fault.HintOf(err), "curl") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckTarget(t *testing.T) {
	t.Parallel()
	for version, known := range map[string]bool{"3.4": true, "3.7": true, "3.8": true, "4.0": false, "3.9": false, "2.3": false, "3.3": false, "foo": false, "3.8.1": false, "": false} {
		if err := diagnose.CheckTarget(version); (err == nil) != known || err != nil && fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// Where backups are to be is nothing: a finding tells.
func TestNoFolderOfBackups(t *testing.T) {
	t.Parallel()
	in := &diagnose.Input{At: start, Limits: diagnose.DefaultLimits()}
	in.AddBackups(filepath.Join(t.TempDir(), "gone"))
	r := diagnose.Diagnose(in)
	belongs(t, r, "KVD-OPS-002 warning")
	mentions(t, finding(t, r, "KVD-OPS-002").Summary, "no such file")
	if len(r.NotLooked) != 1 {
		t.Errorf("%+v", r.NotLooked)
	}
}

// Metrics that are no number, of a file that was damaged, do not keep a report from being
// written.
func TestMetricsThatAreNoNumber(t *testing.T) {
	t.Parallel()
	in := &diagnose.Input{At: start, Limits: diagnose.DefaultLimits()}
	if err := in.AddMetrics([]string{sample(t, "then", start, "5", "10", "10"), sample(t, "now", start.Add(time.Minute), "5", "20", "+Inf")}); err != nil {
		t.Fatal(err)
	}
	r := diagnose.Diagnose(in)
	if shown := finding(t, r, "KVD-READ-004").Evidence[0].Shown(); shown != "+Inf" {
		t.Errorf("shown as %q", shown)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// What a verdict over several directories says of those that are behind, that have no
// log, and whose cluster nobody knows.
func TestNewestWords(t *testing.T) {
	t.Parallel()
	w := healthy()
	w.three(60077, 60200, 60200)
	w.dirs(func(d *diagnose.Dir) {
		d.Path, d.Log.Metadata, d.Log.Numbers.Last = "/bare", wal.Metadata{}, wal.EntryID{}
	})
	w.in.Dirs = append(w.in.Dirs, diagnose.Dir{Path: "/empty"})
	r := diagnose.Diagnose(w.in)
	mentions(t, r.Newest, "keep /m2", "as far as /m3", "the log of /m1 ends 123 entries before", "of /bare the cluster is unknown")
	if strings.Contains(r.Newest, "another cluster") || len(r.Dirs) != 5 || r.Dirs[4].Starts != "no_log" || r.Dirs[3].Cluster != "" {
		t.Errorf("%s\n%+v", r.Newest, r.Dirs)
	}
}

// A start that ends on the database is not among what is good.
func TestStartOnGarbageIsNotGood(t *testing.T) {
	t.Parallel()
	for _, f := range fileFixtures() {
		if f.name != "database: garbage, and the log as well" {
			continue
		}
		w := healthy()
		f.change(w)
		for _, c := range diagnose.Diagnose(w.input(t)).Checks {
			if c.Check == "start" && (c.Findings == 0 || c.Measured != "") {
				t.Errorf("%+v", c)
			}
		}
		return
	}
	t.Error("the fixture is gone")
}
