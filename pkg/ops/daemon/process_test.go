package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kvd/pkg/ops/plan"
)

// TestMetricsSayWhatTheReportsSay: every figure that a schedule serves is moved
// by running it, and is what its reports add up to.
func TestMetricsSayWhatTheReportsSay(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1, 64<<20, 2)
	s.fragment(t, 4)
	p := launch(t, "defrag", "--endpoints", s.Endpoints()[0], "--schedule", "@every 1s", "--min-gain", "2MiB", "-o", "json", "--metrics-listen", "127.0.0.1:0")
	until(t, "serves metrics", func() bool { return p.logged("msg", "next run") > 0 })
	first := p.metrics()

	until(t, "a run that did something", func() bool { return count(p.all(), plan.OutcomeDone) > 0 })
	s.fragment(t, 3)
	until(t, "another, and one with nothing to do", func() bool {
		return count(p.all(), plan.OutcomeDone) > 1 && count(p.all(), plan.OutcomeNothing) > 0
	})
	// Reports and metrics are read one after the other while it goes on: there is
	// a moment at which they agree, or they never do.
	var wrong string
	until(t, "metrics that agree with the reports", func() bool {
		wrong = disagreement(p.metrics(), p.all(), p)
		return wrong == ""
	})
	if wrong != "" {
		t.Error(wrong)
	}
	// What is served has no label value that was not there from the start.
	last := p.metrics()
	for _, name := range slices.Sorted(maps.Keys(last)) {
		if _, ok := first[name]; !ok && !strings.Contains(name, `{member="m1",op="defrag"}`) {
			t.Errorf("%s came later", name)
		}
	}
	resp, err := http.Get(p.addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var health struct {
		OK      bool   `json:"ok"`
		Op      string `json:"op"`
		Outcome string `json:"last_outcome"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&health); err != nil || resp.StatusCode != 200 || !health.OK || health.Op != "defrag" || health.Outcome == "" {
		t.Errorf("health %d %+v %v", resp.StatusCode, health, err)
	}
	if code := p.exit(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	etcdServes(t, s.Endpoint(0))
}

// etcdServes holds the names of etcd's own metrics in what is deployed against
// what a member serves.
func etcdServes(t *testing.T, endpoint string) {
	t.Helper()
	resp, err := http.Get(endpoint + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	served, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alerts-findings.yaml", "dashboard.json"} {
		raw, err := os.ReadFile(filepath.Join("../../../docs/deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		asked := regexp.MustCompile(`etcd_[a-z_]+`).FindAllString(string(raw), -1)
		if len(asked) < 4 {
			t.Errorf("%s: only %d metrics of etcd", name, len(asked))
		}
		for _, m := range asked {
			if strings.HasPrefix(m, "etcd_network_peer_") {
				continue // a member without peers has none
			}
			if !strings.Contains(string(served), "\n"+m) {
				t.Errorf("%s asks for %s, which etcd does not serve", name, m)
			}
		}
	}
}

func count(reports []plan.Report, o plan.Outcome) int {
	n := 0
	for _, r := range reports {
		if r.Outcome == o {
			n++
		}
	}
	return n
}

// disagreement compares what is served with what was reported.
func disagreement(m map[string]float64, reports []plan.Report, p *process) string {
	want := map[string]float64{
		`kvd_schedule_leader{op="defrag"}`:                                                1,
		`kvd_schedule_skipped_ticks_total{op="defrag",reason="unavailable"}`:              float64(p.logged("reason", "unavailable")),
		`kvd_schedule_skipped_ticks_total{op="defrag",reason="running"}`:                  p.dropped(),
		`kvd_schedule_skipped_ticks_total{op="defrag",reason="other_holder"}`:             0,
		`kvd_schedule_retries_total{op="defrag"}`:                                         float64(p.logged("msg", "not reachable, trying again")),
		`kvd_schedule_last_run_outcome{op="defrag",outcome="` + outcomeOf(reports) + `"}`: 1,
	}
	for _, o := range []plan.Outcome{plan.OutcomeDone, plan.OutcomeNothing, plan.OutcomeFailed, plan.OutcomePartial, plan.OutcomeInterrupted} {
		want[fmt.Sprintf(`kvd_schedule_runs_total{op="defrag",outcome=%q}`, o)] = float64(count(reports, o))
	}
	freed, steps, refused := 0.0, map[plan.State]float64{}, 0
	for _, r := range reports {
		for _, st := range r.Steps {
			steps[st.State]++
			if st.State == plan.Done {
				gained := float64(*st.BeforeBytes - *st.AfterBytes)
				freed += max(0, gained)
				want[`kvd_schedule_member_freed_bytes{member="m1",op="defrag"}`] = gained
				want[`kvd_schedule_member_duration_seconds{member="m1",op="defrag"}`] = st.TookSeconds
			}
			if st.State == plan.Failed && strings.Contains(st.Reason, "gate ") {
				refused++
			}
		}
	}
	want[`kvd_schedule_freed_bytes_total{member="m1",op="defrag"}`] = freed
	for st, n := range steps {
		want[fmt.Sprintf(`kvd_schedule_steps_total{op="defrag",state=%q}`, st)] = n
	}
	if len(reports) > 0 {
		want[`kvd_schedule_last_run_duration_seconds{op="defrag"}`] = reports[len(reports)-1].TookSeconds
	}
	for name, v := range want {
		if got, ok := m[name]; !ok || math.Abs(got-v) > 1e-6*max(1, v) {
			return fmt.Sprintf("%s is %v, the reports say %v", name, got, v)
		}
	}
	for name, low := range map[string]float64{
		`kvd_schedule_last_run_timestamp_seconds{op="defrag"}`: 1e9, `kvd_schedule_next_run_timestamp_seconds{op="defrag"}`: 1e9,
		`kvd_schedule_last_success_timestamp_seconds{op="defrag"}`: 1e9,
	} {
		if m[name] < low {
			return fmt.Sprintf("%s is %v", name, m[name])
		}
	}
	return ""
}

func outcomeOf(reports []plan.Report) string {
	if len(reports) == 0 {
		return ""
	}
	return string(reports[len(reports)-1].Outcome)
}
