package snapshot_test

import (
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/snapshot"
)

// TestRestoreAgainWithItsLogElsewhere: a member is in its place already, but its log is
// not where this restore says that it is. Whoever started it as the report says would
// begin a new log.
func TestRestoreAgainWithItsLogElsewhere(t *testing.T) {
	t.Parallel()
	file := write(t, "s.db", realRegistry(t))
	for _, c := range []struct{ name, first, again string }{
		{"it was with the data", "", "wal"}, {"it was beside them", "wal", ""}, {"it was in another folder", "wal", "wal-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			to := func(wal string) snapshot.RestoreTarget {
				t := snapshot.RestoreTarget{Name: "m1", DataDir: filepath.Join(dir, "data")}
				if wal != "" {
					t.WALDir = filepath.Join(dir, wal)
				}
				return t
			}
			if _, err := restore(t, file, oneMember(), to(c.first)); err != nil {
				t.Fatal(err)
			}
			report, err := restore(t, file, oneMember(), to(c.again))
			if fault.CauseOf(err) != "target_exists" || !strings.Contains(err.Error(), "log") {
				t.Errorf("%v, %+v", err, report)
			}
			if _, err := restore(t, file, oneMember(), to(c.first)); err != nil {
				t.Errorf("as it was: %v", err)
			}
		})
	}
}

// TestRestoreAgainIntoAnotherCluster: a member is in its place already, of a cluster with
// the same token and without the member that this restore adds. The two would refuse each
// other.
func TestRestoreAgainIntoAnotherCluster(t *testing.T) {
	t.Parallel()
	file, dir := write(t, "s.db", realRegistry(t)), t.TempDir()
	one := oneMember()
	one.Token = "chosen"
	m1 := snapshot.RestoreTarget{Name: "m1", DataDir: filepath.Join(dir, "m1")}
	if _, err := restore(t, file, one, m1); err != nil {
		t.Fatal(err)
	}
	two := one
	two.Members = append(two.Members, snapshot.RecipeMember{Name: "m2", PeerURLs: []string{"http://localhost:2390"}})
	report, err := restoreAll(t, snapshot.RestoreOptions{File: file, Recipe: two,
		Here: []snapshot.RestoreTarget{m1, {Name: "m2", DataDir: filepath.Join(dir, "m2")}}})
	if fault.CauseOf(err) != "target_exists" {
		t.Errorf("%v, %+v", err, report)
	}
	onlyIn(t, dir, "m1")
}
