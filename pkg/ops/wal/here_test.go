package wal

import (
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
	for at, dirs := range map[string][]string{l.dir: {".", "../wal", l.dir}, member: {".", "wal"}, filepath.Join(member, "snap"): {"..", "../wal"}} {
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
}
