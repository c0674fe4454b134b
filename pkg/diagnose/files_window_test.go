package diagnose_test

import (
	"os"
	"path/filepath"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/progress"
)

// TestASnapshotThatTakesTooMuchMemoryWasNotLookedAt: a frame of zstd with a window of
// 256 MiB says nothing of what is in it, good or bad.
func TestASnapshotThatTakesTooMuchMemoryWasNotLookedAt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "backup.db.zst")
	if err := os.WriteFile(path, []byte("\x28\xb5\x2f\xfd\x00\x90\x19\x00\x00abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	var in diagnose.Input
	if err := in.AddFile(t.Context(), path, diagnose.DirOptions{}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if len(in.Files) != 0 || len(in.Missing) != 1 || in.Missing[0].Subject != path || in.Missing[0].Cause != "zstd_window" {
		t.Errorf("%+v, %+v", in.Files, in.Missing)
	}
}
