package atomicfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"kvd/pkg/ops/atomicfile"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, content := range []string{"one", "", "another, longer"} {
		if err := atomicfile.Write(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("%q, %v; want %q", got, err, content)
		}
	}
	if err := atomicfile.WriteNew(path, []byte("x"), 0o640); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written anew over a file: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	onlyFiles(t, dir, "f")
}

func TestWriteThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "f"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "f"), []byte("x"), 0o600); err == nil {
		t.Error("written over a folder")
	}
	onlyFiles(t, dir, "f")
	if err := atomicfile.Write(filepath.Join(dir, "none", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// Of many that want a name at the same moment one gets it.
func TestRenameNew(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "to")
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		from := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(from, []byte(from), 0o600); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { errs[i] = atomicfile.RenameNew(from, to) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("%d: %v, after %d", i, err, won)
		}
	}
	got, err := os.ReadFile(to)
	if err != nil || won < 0 || string(got) != filepath.Join(dir, fmt.Sprint(won)) {
		t.Errorf("%q, %v; %d won", got, err, won)
	}
	if err := atomicfile.Rename(filepath.Join(dir, fmt.Sprint((won+1)%len(errs))), to); err != nil {
		t.Errorf("a rename that replaces: %v", err)
	}
}

func onlyFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(names) {
		t.Errorf("%v, %v; want %v", entries, err, names)
	}
}
