package cli

import (
	"context"
	"strings"
	"testing"

	"kvd/pkg/ops"
	"kvd/pkg/ops/fault"
)

// What is typed becomes one goal, or a usage error before anything is sent.
func TestCompactGoalFromFlags(t *testing.T) {
	for _, tc := range []struct {
		args string
		want ops.CompactGoal
		says string // of the error; empty: none
	}{
		{"", ops.CompactGoal{}, ""},
		{"--to 500", ops.CompactGoal{To: 500}, ""},
		{"--to head", ops.CompactGoal{Head: true}, ""},
		{"--keep-revisions 1000", ops.CompactGoal{Keep: 1000}, ""},
		{"--to 0", ops.CompactGoal{}, "want a revision"},
		{"--to -3", ops.CompactGoal{}, "want a revision"},
		{"--to latest", ops.CompactGoal{}, "want a revision"},
		{"--keep-revisions 0", ops.CompactGoal{}, "at least 1"},
		{"--to 5 --keep-revisions 5", ops.CompactGoal{}, "contradict"},
		{"1000", ops.CompactGoal{}, "a bare number would mean"},
		{"now", ops.CompactGoal{}, `unexpected argument "now"`},
	} {
		app, _ := testApp(strings.NewReader(""), false, nil)
		var got *ops.CompactGoal
		cmd := newCompactCmd(app, func(_ context.Context, _ *App, o compactOptions) error { got = &o.Goal; return nil })
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(strings.Fields(tc.args))
		err := cmd.Execute()
		if tc.says == "" {
			if err != nil || got == nil || *got != tc.want {
				t.Errorf("%q: goal %+v, error %v, want %+v", tc.args, got, err, tc.want)
			}
			continue
		}
		if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), tc.says) || got != nil {
			t.Errorf("%q: error %v, ran %v, want a usage error with %q", tc.args, err, got != nil, tc.says)
		}
	}
}
