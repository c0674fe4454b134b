package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
)

// That a result cannot be written is said before anything is loaded, and why.
func TestAResultThatWillHaveNoPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	places := map[string]string{
		file:                         "of that name already",
		filepath.Join(file, "out"):   "folder is not there",
		filepath.Join(dir, "no/out"): "folder is not there",
	}
	if runtime.GOOS == "linux" { // where nobody makes a file, be it root
		places["/proc/out.jsonl"] = "takes no file"
	}
	for path, want := range places {
		if _, err := openLoadFiles(path, ""); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := openLoadFiles(filepath.Join(dir, "out"), ""); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}
