package wal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Whoever stands in the WAL folder and names it "." has the same database beside it, and
// the same neighbours.
func TestTheLogOfTheWorkingDirectory(t *testing.T) {
	l := newLog(t)
	l.add(1, put("a", "v", 0))
	member := filepath.Dir(l.dir)
	for _, name := range []string{"snap", "wal.broken.20260301"} {
		if err := os.Mkdir(filepath.Join(member, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(member, "snap", "db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look := func(at string, dirs ...string) {
		t.Helper()
		t.Chdir(at)
		for _, dir := range dirs {
			v, err := Verify(t.Context(), dir, VerifyOptions{})
			if err != nil || v.Database == nil {
				t.Errorf("%s in %s: no database beside it, %v", dir, at, err)
			}
			list, err := List(t.Context(), dir)
			if err != nil || !slices.ContainsFunc(list.Files, func(f OtherFile) bool { return f.Kind == FileAside }) {
				t.Errorf("%s in %s: %+v, %v", dir, at, list.Files, err)
			}
		}
	}
	look(l.dir, ".", "../wal", l.dir)
	look(member, ".", "wal")
	look(filepath.Join(member, "snap"), "..", "../wal")

	// The folder is a link, to a disk of its own.
	disk := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.Rename(l.dir, disk), os.Symlink(disk, l.dir)); err != nil {
		t.Fatal(err)
	}
	look(l.dir, ".", l.dir)
	look(member, ".", "wal")
}
