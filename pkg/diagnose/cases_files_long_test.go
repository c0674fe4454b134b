//go:build long

package diagnose_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"kvd/pkg/server/servertest"
)

// Case C57: an old database was put in the place of the newer one.
func TestCaseOldDatabase(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0, "--snapshot-count=100", "--snapshot-catchup-entries=10")
	put(t, c.Client(t), "k", 300, 100, 100)
	settleDisk(t)
	stop(t, c, 0)
	db := filepath.Join(c.DataDir(0), "member", "snap", "db")
	copyDir(t, db, db+".old")
	if err := c.StartMember(servertest.Context(t, time.Minute), 0); err != nil {
		t.Fatal(err)
	}
	put(t, c.Client(t), "k", 700, 100, 100)
	settleDisk(t)
	stop(t, c, 0)
	if err := os.Rename(db+".old", db); err != nil {
		t.Fatal(err)
	}
	r := lookAt(t, c.DataDir(0))
	belongs(t, r, "KVD-CORRUPT-004 critical")
	f := finding(t, r, "KVD-CORRUPT-004")
	mentions(t, f.Summary, "no entry is missing from index", "without its snapshot records")
	if evidence(t, f, "newest snapshot record").Value <= evidence(t, f, "consistent index of the database").Value {
		t.Errorf("%+v", f.Evidence)
	}
}

// Case C91: the database is gone, and what is still in the log.
func TestCaseDatabaseGone(t *testing.T) {
	t.Parallel()
	t.Run("a log from the beginning", func(t *testing.T) {
		t.Parallel()
		c, dir := written(t, 300)
		remove(t, filepath.Join(dir, "member", "snap", "db"))
		r := lookAt(t, dir)
		belongs(t, r, "KVD-CORRUPT-004 warning")
		mentions(t, finding(t, r, "KVD-CORRUPT-004").Summary, "the log reaches back to index 1")
		if err := c.StartMember(servertest.Context(t, time.Minute), 0); err != nil {
			t.Fatal(err)
		}
		got, err := c.Client(t).Get(t.Context(), "/registry/pods/a/p7")
		if err != nil || len(got.Kvs) != 1 || got.Header.Revision != 301 {
			t.Errorf("after the start: %v, %v", got, err)
		}
	})
	t.Run("with snapshot records", func(t *testing.T) {
		t.Parallel()
		_, dir := written(t, 500, "--snapshot-count=100")
		remove(t, filepath.Join(dir, "member", "snap", "db"))
		r := lookAt(t, dir)
		belongs(t, r, "KVD-CORRUPT-004 critical")
		f := finding(t, r, "KVD-CORRUPT-004")
		mentions(t, f.Summary, "no entry is missing from index 1 on")
		mentions(t, f.Remedy[0], "keep a copy of the directory")
	})
	t.Run("of a restore", func(t *testing.T) {
		t.Parallel()
		_, dir := written(t, 100)
		c := notStarted(t, 1)
		kvd(t, "snapshot", "restore", filepath.Join(dir, "member", "snap", "db"), "--skip-hash-check", "--data-dir", c.DataDir(0), "--member", c.Name(0)+"="+c.PeerURL(0), "--yes")
		if err := c.StartMember(servertest.Context(t, time.Minute), 0); err != nil {
			t.Fatal(err)
		}
		put(t, c.Client(t), "later", 100, 10, 10)
		stop(t, c, 0)
		remove(t, filepath.Join(c.DataDir(0), "member", "snap", "db"))
		r := lookAt(t, c.DataDir(0))
		belongs(t, r, "KVD-CORRUPT-004 critical")
		mentions(t, finding(t, r, "KVD-CORRUPT-004").Summary, "the log begins with a restore")
	})
}
