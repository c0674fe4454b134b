package diagnose_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/progress"
)

// A file that is damaged throughout tells no revision: that is not good.
func TestNoRevisionIsNotGood(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "garbage.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("\xee", 40_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	in := &diagnose.Input{At: start, Limits: diagnose.DefaultLimits()}
	if err := in.AddFile(t.Context(), path, diagnose.DirOptions{}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	r := diagnose.Diagnose(in)
	belongs(t, r, "KVD-CORRUPT-005 critical")
	if i := slices.IndexFunc(r.Checks, func(c diagnose.Result) bool { return c.Check == "revisions kept" }); i >= 0 {
		t.Errorf("good: %+v", r.Checks[i])
	}
}
