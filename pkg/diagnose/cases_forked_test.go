package diagnose_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/wal"
	"kvd/pkg/server/servertest"
)

// oneDown is a cluster of three that was written to, whose third member then missed
// some, all stopped.
func oneDown(t *testing.T) *servertest.Cluster {
	t.Helper()
	c := shape{members: 3}.start(t)
	put(t, c.Client(t), "/a", 50, 50, 100)
	c.WaitSettled(t)
	stop(t, c, 2)
	put(t, c.Client(t, c.Endpoint(0), c.Endpoint(1)), "/b", 50, 50, 100)
	c.CheckEqualContent(t)
	return c
}

// A member that was behind was made a cluster of its own while the two others had
// acknowledged more: its term is the highest, and it has not everything.
func TestCaseForked(t *testing.T) {
	t.Parallel()
	c := oneDown(t)
	stop(t, c, 0, 1)
	dirs := []string{c.DataDir(0), c.DataDir(1), c.DataDir(2)}
	belongs(t, lookAt(t, dirs...), "KVD-RAFT-011 info") // one that was down is behind, and that is all
	if err := c.StartMember(servertest.Context(t, time.Minute), 2, "--force-new-cluster"); err != nil {
		t.Fatal(err)
	}
	for i, more := range []int{5, 200} { // its log ends before the others', and behind them
		put(t, c.Client(t, c.Endpoint(2)), "/c", more, 50, 100)
		stop(t, c, 2)
		r := lookAt(t, dirs...)
		belongs(t, r, "KVD-CORRUPT-002 critical", "KVD-CORRUPT-002 critical")
		mentions(t, finding(t, r, "KVD-CORRUPT-002").Summary, "have gone apart at entry", "neither has all of it")
		mentions(t, r.Newest, "keep all of them")
		for _, d := range r.Dirs {
			if d.Newest {
				t.Errorf("%s is called the newest", d.Path)
			}
		}
		if i == 0 {
			if !slow {
				break
			}
			if err := c.StartMember(servertest.Context(t, time.Minute), 2); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The log of the member that had most was deleted: no start is left, and its database
// has what no log of the others has.
func TestCaseNewestWithoutLog(t *testing.T) {
	t.Parallel()
	c := oneDown(t)
	stop(t, c, 0, 1)
	if err := os.RemoveAll(filepath.Join(c.DataDir(0), "member", "wal")); err != nil {
		t.Fatal(err)
	}
	r := lookAt(t, c.DataDir(0), c.DataDir(2))
	mentions(t, r.Newest, "keep "+c.DataDir(0)+":", "the best log that can be used, "+c.DataDir(2), "kvd snapshot restore "+c.DBPath(0))
	if !r.Dirs[0].Newest || r.Dirs[1].Newest {
		t.Errorf("%+v", r.Dirs)
	}
	r = lookAt(t, c.DataDir(0), c.DataDir(1), c.DataDir(2)) // its peer has the same, and a log
	mentions(t, r.Newest, "keep "+c.DataDir(1)+":")
	if strings.Contains(r.Newest, "restore") || r.Dirs[0].Newest {
		t.Errorf("%q, %+v", r.Newest, r.Dirs)
	}
}

// Entries that no majority has seen are overwritten: no fork.
func TestOverwrittenIsNoFork(t *testing.T) {
	t.Parallel()
	w := healthy()
	w.three(60, 61)
	for i, sums := range [][]uint32{{1, 2, 3}, {1, 2, 4, 5}} { // entries 58 to 60, and to 61
		d := &w.in.Dirs[i]
		d.First, d.Sums = 58, sums
		d.Log.Numbers.Last.Term, d.Log.Numbers.Commit = uint64(5+i), uint64(59+2*i) //nolint:gosec // small
	}
	if r := diagnose.Diagnose(w.in); strings.Contains(r.Newest, "all of them") || !strings.Contains(r.Newest, "keep /m2") {
		t.Error(r.Newest)
	}
	w.in.Dirs[0].Log.Numbers.Commit = 60
	w.in.Dirs[1].Log.Numbers.Commit = 60
	if r := diagnose.Diagnose(w.in); !strings.Contains(r.Newest, "all of them") {
		t.Error(r.Newest)
	}
}

// Of databases of two clusters none is the one to keep, where no log can be used.
func TestNoNewestOfTwoClusters(t *testing.T) {
	t.Parallel()
	w := healthy()
	w.three(60, 61)
	for i := range w.in.Dirs {
		d := &w.in.Dirs[i]
		d.Log.Verdict = wal.Verdict{Outcome: wal.Refuses}
		d.Log.Database = &wal.Database{ConsistentIndex: uint64(60 + i), Term: 5, Members: []wal.DatabaseMember{{ID: wal.ID(7 + i)}}} //nolint:gosec // few
	}
	if r := diagnose.Diagnose(w.in); strings.Contains(r.Newest, "keep ") {
		t.Error(r.Newest)
	}
}
