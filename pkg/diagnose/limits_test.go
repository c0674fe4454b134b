package diagnose_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/fault"
)

// The alert rules of docs/deploy fire where a finding is given: at the same numbers,
// in this order in the rule.
func TestAlertsHaveTheLimits(t *testing.T) {
	raw, err := os.ReadFile("../../docs/deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			rules[r.Alert] = r.Expr
		}
	}
	limits := diagnose.DefaultLimits()
	by := map[string]float64{}
	for _, l := range limits.Table() {
		by[l.Name] = *l.Value
	}
	for alert, names := range map[string][]string{
		"EtcdQuotaNear":      {"quota_usage_warning"},
		"EtcdQuotaReached":   {"quota_usage_critical"},
		"EtcdFileMostlyFree": {"free_pages", "free_pages_from_usage"},
	} {
		var is []float64
		for _, m := range regexp.MustCompile(`> (0\.\d+)`).FindAllStringSubmatch(rules[alert], -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			is = append(is, v)
		}
		if len(is) != len(names) {
			t.Errorf("%s has the numbers %v, want those of %v", alert, is, names)
			continue
		}
		for i, n := range names {
			if is[i] != by[n] {
				t.Errorf("%s fires at %v, and %s is %v", alert, is[i], n, by[n])
			}
		}
	}
}

// Each limit has a name of its own, a source, and can be changed.
func TestLimits(t *testing.T) {
	l := diagnose.DefaultLimits()
	seen := map[string]bool{}
	for _, row := range l.Table() {
		if row.Name == "" || seen[row.Name] || row.Source == "" || row.What == "" || row.Unit == "" || *row.Value != row.Default {
			t.Errorf("limit %+v", row)
		}
		seen[row.Name] = true
		if strings.ToLower(row.Name) != row.Name {
			t.Errorf("%s is not in small letters", row.Name)
		}
	}
	if err := l.Set([]string{"wal_fsync_p99=20ms", "disk_ratio=7"}); err != nil || l.FsyncP99 != 0.02 || l.DiskRatio != 7 {
		t.Errorf("%v, %v, %v", err, l.FsyncP99, l.DiskRatio)
	}
	for _, bad := range []string{"nothing=1", "disk_ratio", "disk_ratio=x", "disk_ratio=-1", "disk_ratio=NaN", "disk_ratio=Inf"} {
		if err := l.Set([]string{bad}); fault.KindOf(err) != fault.Usage {
			t.Errorf("--set %s: %v", bad, err)
		}
	}
}
