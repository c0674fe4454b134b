//go:build long

package diagnose_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// since lists the metrics that older versions lack, by the version that brought them.
// What rests on them alone is then not looked at.
var since = map[string]string{
	"etcd_server_range_duration_seconds": "3.6",
	"etcd_server_apply_duration_seconds": "3.5",
}

// later lists those that a young member does not have yet: one for each peer that was
// measured, or sent a snapshot.
var later = []string{"etcd_network_peer_round_trip_time_seconds", "etcd_network_snapshot_send_inflights_total"}

// Every metric that a check or an alert rule reads is served by every version of etcd, under that name.
func TestMetricNames(t *testing.T) {
	var used []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, "../ops/metrics/metrics.go") {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if matched, _ := filepath.Match("*_test.go", filepath.Base(f)); matched {
			continue
		}
		for _, m := range regexp.MustCompile(`"(etcd_(?:server|debugging|mvcc|network|disk)_[a-z_]+)"`).FindAllStringSubmatch(string(raw), -1) {
			if !slices.Contains(used, m[1]) {
				used = append(used, m[1])
			}
		}
	}
	for _, a := range diagnose.Alerts(diagnose.DefaultLimits()) {
		for _, m := range regexp.MustCompile(`etcd_[a-z_]+`).FindAllString(a.Expr, -1) {
			if m = strings.TrimSuffix(strings.TrimSuffix(m, "_bucket"), "_count"); !slices.Contains(used, m) {
				used = append(used, m)
			}
		}
	}
	if len(used) < 20 {
		t.Fatalf("only %d names were found: %q", len(used), used)
	}
	for _, version := range []string{"3.4", "3.5", "3.6", "3.7"} {
		t.Run(version, func(t *testing.T) {
			o := local.Options{Members: 3}
			if version != "3.7" {
				o.Command = local.Command{Path: servertest.OldServer(t, version)}
			}
			c := servertest.Start(t, servertest.Options{Options: o})
			put(t, c.Client(t), "k", 20, 5, 10)
			if _, err := c.Client(t).Get(t.Context(), "k1"); err != nil {
				t.Fatal(err)
			}
			var all []string
			for i := range c.Len() {
				s, err := metrics.Fetch(t.Context(), http.DefaultClient, c.Endpoint(i))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, s.Names()...)
			}
			for _, name := range used {
				if slices.Contains(later, name) {
					continue
				}
				if has := slices.Contains(all, name); has != (since[name] <= version) {
					t.Errorf("%s: served %v, known since %q", name, has, since[name])
				}
			}
		})
	}
}
