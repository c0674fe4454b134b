//go:build long

package diagnose_test

import (
	"path/filepath"
	"testing"
	"time"

	"kvd/pkg/server/servertest"
)

// Case C68, the tie: two members differ, each otherwise.
func TestCaseNoMajority(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 0)
	put(t, c.Client(t), "k", 20, 5, 100)
	stop(t, c, 1, 2)
	edit(t, c.DBPath(1), "k1", otherValue)
	edit(t, c.DBPath(2), "k2", otherValue)
	for _, i := range []int{1, 2} {
		if err := c.Launch(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitReady(servertest.Context(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	r := look(t, connect(t, c), withHash)
	belongs(t, r, "KVD-CORRUPT-002 critical")
	mentions(t, finding(t, r, "KVD-CORRUPT-002").Summary, "three different hashes", "no majority, do not guess")
}

// Case C38: three members restored from two snapshots form a cluster.
func TestCaseRestoredFromDifferent(t *testing.T) {
	t.Parallel()
	src := begin(t, 1, 0)
	client := src.Client(t)
	dir := t.TempDir()
	put(t, client, "k", 100, 10, 50)
	kvd(t, "snapshot", "save", filepath.Join(dir, "a.db"), "--endpoints", src.Endpoint(0))
	put(t, client, "k", 50, 10, 50)
	kvd(t, "snapshot", "save", filepath.Join(dir, "b.db"), "--endpoints", src.Endpoint(0))
	c := notStarted(t, 3)
	for i := range 3 {
		from := "a.db"
		if i == 2 {
			from = "b.db"
		}
		args := []string{"snapshot", "restore", filepath.Join(dir, from), "--name", c.Name(i), "--data-dir", c.DataDir(i), "--initial-cluster-token", "t", "--yes"}
		for j := range 3 {
			args = append(args, "--member", c.Name(j)+"="+c.PeerURL(j))
		}
		kvd(t, args...)
	}
	off := lookAt(t, c.DataDir(0), c.DataDir(1), c.DataDir(2))
	belongs(t, off, "KVD-CORRUPT-002 critical", "KVD-CORRUPT-002 critical") // m3 against each of the others
	for i := range 3 {
		if err := c.Launch(i, "--initial-cluster-token=t"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitReady(servertest.Context(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-CORRUPT-002 critical")
	f := finding(t, r, "KVD-CORRUPT-002")
	if f.Subject != "m3" {
		t.Errorf("subject %q: %s", f.Subject, f.Summary)
	}
	mentions(t, f.Summary, "50 apart")
	kvd(t, "snapshot", "verify", filepath.Join(dir, "a.db"))
}
