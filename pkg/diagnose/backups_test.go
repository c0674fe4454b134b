package diagnose_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
)

// What lies beside snapshots is none, and one folder that can't be read hides no other.
func TestWhatIsABackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, age time.Duration, content ...byte) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600), os.Chtimes(path, start.Add(-age), start.Add(-age))); err != nil {
			t.Fatal(err)
		}
		return path
	}
	look := func() diagnose.Report {
		in := &diagnose.Input{At: start, Limits: diagnose.DefaultLimits()}
		in.AddBackups(dir)
		return diagnose.Diagnose(in)
	}
	db := make([]byte, 4096)
	old := write("2026-01.db", 10*24*time.Hour, db...)
	write("backup.log", time.Hour, []byte("etcdctl snapshot save: context deadline exceeded\n")...)
	write("2026-02.db.part", time.Hour, db...) // as etcdctl leaves it
	write("2026-03.db", time.Hour)             // and a disk that was full
	if err := os.Symlink(filepath.Join(dir, "removed.db"), filepath.Join(dir, "latest")); err != nil {
		t.Fatal(err)
	}
	r := look()
	belongs(t, r, "KVD-OPS-002 warning")
	mentions(t, finding(t, r, "KVD-OPS-002").Summary, old, "10 days")

	for _, begins := range []string{"-----BEGIN PGP MESSAGE-----\n", "age-encryption.org/v1\n", "\xff\xfe\x00\x01"} { // encrypted ones are
		path := write("encrypted", time.Hour, []byte(begins)...)
		if r := look(); r.Has("KVD-OPS-002") {
			t.Errorf("a file that begins with %q is taken for no backup", begins)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}

	// A path that is too long can't be read by root either.
	long, err := os.OpenRoot(dir)
	for range 20 {
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Repeat("a", 250)
		if err = long.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		at := long
		long, err = at.OpenRoot(name)
		_ = at.Close()
	}
	defer long.Close()
	r = look()
	mentions(t, finding(t, r, "KVD-OPS-002").Summary, "there may be a newer one", "file name too long")
	write("b/new.db", time.Hour, db...)
	if r = look(); r.Has("KVD-OPS-002") || len(r.NotLooked) != 1 {
		t.Errorf("%+v", r)
	}
}
