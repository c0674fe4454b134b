package diagnose_test

import (
	"slices"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
)

// The rules for Prometheus have the numbers of the table, whatever they are changed to.
func TestAlertsHaveTheLimits(t *testing.T) {
	limits := diagnose.DefaultLimits()
	used := map[string]bool{}
	for _, a := range diagnose.Alerts(limits) {
		if strings.Contains(a.Expr, "{{") {
			t.Errorf("%s: a limit without a value: %s", a.Name, a.Expr)
		}
		for _, name := range a.Limits {
			used[name] = true
		}
		if _, ok := diagnose.Catalogue()[a.Finding]; !ok {
			t.Errorf("%s: there is no %s", a.Name, a.Finding)
		}
	}
	if len(used) < 20 {
		t.Errorf("only %d limits are used: %v", len(used), used)
	}
	for name := range used {
		i := slices.IndexFunc(limits.Table(), func(l diagnose.Limit) bool { return l.Name == name })
		if i < 0 {
			t.Errorf("a rule has limit %s, and there is none", name)
			continue
		}
		before := diagnose.Alerts(limits)
		if err := limits.Set([]string{name + "=987654321"}); err != nil {
			t.Error(err)
		}
		for k, a := range diagnose.Alerts(limits) {
			if slices.Contains(a.Limits, name) != (a.Expr != before[k].Expr) {
				t.Errorf("limit %s is changed, and %s says %s", name, a.Name, a.Expr)
			}
		}
		limits = diagnose.DefaultLimits()
	}
}
