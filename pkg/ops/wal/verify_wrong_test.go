package wal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A length that was damaged in a running server's log, with records behind it, is what it
// is of a stopped one's, and not a record in flight: also when the server writes on.
func TestVerifyLiveDamaged(t *testing.T) {
	t.Parallel()
	for name, length := range map[string][]byte{"zeros": make([]byte, 8), "beyond the file": {0, 0, 0, 0, 1, 0, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			damagedLive(t, length)
		})
	}
}

// damagedLive writes another length into the middle of a running server's log.
func damagedLive(t *testing.T, length []byte) {
	t.Helper()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 60)
	var middle wal.Record
	n := 0
	if err := wal.Records(t.Context(), c.DataDir(0), func(r wal.Record) error {
		if r.Type == wal.StateType {
			if n++; n == 30 {
				middle = r
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(c.DataDir(0), "member", "wal", middle.File), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, werr := f.WriteAt(length, middle.Offset)
	if err := f.Close(); err != nil || werr != nil {
		t.Fatal(err, werr)
	}
	look := func(live bool) {
		t.Helper()
		v, err := wal.Verify(t.Context(), c.DataDir(0), wal.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		worst := v.Worst()
		if (v.Live != "") != live || v.Damaged != 1 || v.Damages[0].Position != middle.Position || v.Damages[0].Behind < 20 ||
			v.Verdict.Outcome == wal.Starts || worst == nil || worst.Severity != wal.Critical {
			t.Errorf("%+v, %+v, %+v", v.Verdict, v.Damages, worst)
		}
		if worst != nil && live != strings.Contains(worst.Hint, "do not restart it before `kvd snapshot save") {
			t.Error(worst.Hint)
		}
		if l, err := wal.List(t.Context(), c.DataDir(0)); err != nil || l.Damaged != 1 {
			t.Error(l.Damaged, err)
		}
	}
	look(true)
	puts(t, c.Client(t), 20)
	look(true)
	c.Kill(0)
	look(false)
}

// A copy of a log beside the member's own does not hide it, and is not taken in its
// place either.
func TestStrayLogs(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync"}}})
	puts(t, c.Client(t), 20)
	c.Kill(0)
	dir := filepath.Join(t.TempDir(), "data")
	for _, err := range []error{
		os.CopyFS(dir, os.DirFS(c.DataDir(0))),
		os.CopyFS(filepath.Join(dir, "wal"), os.DirFS(filepath.Join(dir, "member", "wal"))),
		os.CopyFS(dir, os.DirFS(filepath.Join(dir, "wal"))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if found, err := wal.Find(dir); err != nil || found != filepath.Join(dir, "member", "wal") {
		t.Error(found, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "member", "wal")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if v, err := wal.Verify(t.Context(), dir, wal.VerifyOptions{}); fault.CauseOf(err) != wal.CauseAmbiguous {
			t.Error(v, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "wal")); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that has its log elsewhere is not told to have lost it.
func TestWALDirElsewhere(t *testing.T) {
	t.Parallel()
	logs := filepath.Join(t.TempDir(), "logs")
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync", "--wal-dir=" + logs}}})
	v, err := wal.Verify(t.Context(), c.DataDir(0), wal.VerifyOptions{})
	if fault.CauseOf(err) != wal.CauseNoWAL || !strings.Contains(err.Error(), "--wal-dir") {
		t.Errorf("%+v, %v", v, err)
	}
	v, err = wal.Verify(t.Context(), logs, wal.VerifyOptions{DB: c.DBPath(0)})
	if err != nil || v.Verdict.Outcome != wal.Starts || v.Live == "" {
		t.Errorf("%+v, %v", v, err)
	}
}
