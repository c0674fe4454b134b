package snapshot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/servertest"
)

// TestRestoreIntoTheLogsFileSystem: the folder of a log is put into its place as a whole,
// which does not do where a file system is mounted. That is said before anything is built,
// and not of what somebody else is said to have put there meanwhile.
func TestRestoreIntoTheLogsFileSystem(t *testing.T) {
	t.Parallel()
	file := write(t, "s.db", realRegistry(t))
	for name, prepare := range map[string]func(*testing.T, string){
		"empty": func(t *testing.T, dir string) { servertest.MountSmall(t, dir, 128) },
		"with what a new file system has": func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			wal := filepath.Join(dir, "wal")
			if err := os.Mkdir(wal, 0o700); err != nil {
				t.Fatal(err)
			}
			prepare(t, wal)
			to := snapshot.RestoreTarget{Name: "m1", DataDir: filepath.Join(dir, "data"), WALDir: wal}
			p, err := snapshot.PlanRestore(t.Context(), snapshot.RestoreOptions{File: file, Recipe: oneMember(), Here: []snapshot.RestoreTarget{to}}, progress.Discard)
			if err == nil {
				err = p.Close()
			}
			if fault.CauseOf(err) != "target_exists" || !strings.Contains(fault.HintOf(err), filepath.Join(wal, "wal")) {
				t.Errorf("%v; %s", err, fault.HintOf(err))
			}
			to.WALDir = filepath.Join(wal, "wal")
			if _, err := restore(t, file, oneMember(), to); err != nil {
				t.Errorf("as the hint says: %v", err)
			}
		})
	}
}
