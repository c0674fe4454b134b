package ops

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a killed defragmentation has left is found in a folder of any name.
func TestHalfCopiesInAFolderNamedAsAPattern(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "[1]*")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "db.tmp.123")
	for _, path := range []string{left, filepath.Join(dir, "db")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := halfCopies(dir); !slices.Equal(got, []string{left}) {
		t.Errorf("got %v, want %s", got, left)
	}
}
