package snapshot_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
)

// TestRestoreTakesTheLogBack: the log is put into its place before the data, and
// something has come up in theirs meanwhile. A log without its data is of use to nobody,
// and would be in the way of the next restore.
func TestRestoreTakesTheLogBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, data, wal := write(t, "snapshot.db", realRegistry(t)), filepath.Join(dir, "data"), filepath.Join(dir, "wal")
	to := snapshot.RestoreTarget{Name: "m1", DataDir: data, WALDir: wal}
	p, err := snapshot.PlanRestore(t.Context(), snapshot.RestoreOptions{File: file, Recipe: oneMember(), Here: []snapshot.RestoreTarget{to}}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Plan.Run(context.Background(), nil, progress.Func(func(e progress.Event) {
		if strings.HasPrefix(e.Phase, "put into") && e.State == "started" {
			if err := os.WriteFile(data, []byte("mine"), 0o600); err != nil {
				t.Error(err)
			}
		}
	}))
	if err = errors.Join(err, p.Close()); fault.KindOf(err) != fault.Refused && fault.KindOf(err) != fault.Partial && fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v: %v", fault.KindOf(err), err)
	}
	onlyIn(t, dir, "data")
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	if _, err := restore(t, file, oneMember(), to); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
