//go:build long

package diagnose_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// Case C77: a learner that nobody promotes, two and four voters.
func TestCaseLearner(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	join := func(learner bool) {
		i, err := c.Reserve()
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { // etcd refuses until a member that has just joined is connected for 5 s
			ctx := servertest.Context(t, time.Minute)
			if learner {
				_, err = c.Client(t).MemberAddAsLearner(ctx, []string{c.PeerURL(i)})
			} else {
				_, err = c.Client(t).MemberAdd(ctx, []string{c.PeerURL(i)})
			}
			return err == nil
		})
		if err := c.Launch(i); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			v, err := connect(t, c).View(t.Context())
			return err == nil && len(v.Answered()) == i+1 && v.Leader != 0
		})
	}
	join(true)
	r := look(t, connect(t, c, c.Endpoint(0)))
	belongs(t, r, "KVD-RAFT-006 info")
	mentions(t, finding(t, r, "KVD-RAFT-006").Summary, "100.0 % caught up")
	kvd(t, "member", "promote", "m2", "--yes", "--endpoints", c.Endpoint(0))
	good := look(t, connect(t, c))
	belongs(t, good, "KVD-RAFT-007 warning") // two voters survive nothing
	remedied(t, "KVD-RAFT-006", r, good, "kvd member promote m2 --yes")
	join(false)
	belongs(t, look(t, connect(t, c)))
	join(false)
	belongs(t, look(t, connect(t, c)), "KVD-RAFT-009 info")
}

// Case C42: a restore in the place of a member makes another cluster.
func TestCaseRestoredMember(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 0)
	put(t, c.Client(t), "a", 100, 20, 10)
	snap := filepath.Join(t.TempDir(), "s.db")
	kvd(t, "snapshot", "save", snap, "--endpoints", c.Endpoint(0))
	stop(t, c, 2)
	if err := os.RemoveAll(c.DataDir(2)); err != nil {
		t.Fatal(err)
	}
	kvd(t, "snapshot", "restore", snap, "--data-dir", c.DataDir(2), "--member", "m3="+c.PeerURL(2), "--yes")
	r := lookWithDir(t, connect(t, c, c.Endpoint(0), c.Endpoint(1)), c.DataDir(2))
	if !r.Has("KVD-RAFT-012") {
		t.Errorf("the directory alone, beside the others: %q", got(r))
	}
	if err := c.Launch(2, "--initial-cluster=m3="+c.PeerURL(2)); err != nil {
		t.Fatal(err)
	}
	client := connect(t, c)
	waitFor(t, func() bool { v, err := client.View(t.Context()); return err == nil && len(v.Strangers) == 1 })
	r = look(t, client)
	f := finding(t, r, "KVD-RAFT-012")
	if f.Subject != c.Endpoint(2) || f.Severity != diagnose.Critical {
		t.Errorf("%+v", f)
	}
	belongs(t, r, "KVD-NET-001 warning", "KVD-NET-002 warning", "KVD-RAFT-007 warning", "KVD-RAFT-012 critical")
	shows(t, r, "KVD-RAFT-012")
	for _, id := range []string{"KVD-NET-001", "KVD-NET-002"} {
		if x := finding(t, r, id); len(x.ExplainedBy) == 0 {
			t.Errorf("%s is not explained: %+v", id, x)
		}
	}
}

// Case C61: an old copy of a data directory is put back.
func TestCaseOldCopy(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 0)
	put(t, c.Client(t), "a", 50, 20, 10)
	stop(t, c, 0)
	old := filepath.Join(t.TempDir(), "old")
	copyDir(t, c.DataDir(0), old)
	if err := c.StartMember(servertest.Context(t, time.Minute), 0); err != nil {
		t.Fatal(err)
	}
	put(t, c.Client(t), "a", 500, 20, 10)
	stop(t, c, 0)
	r := lookWithDir(t, connect(t, c, c.Endpoint(1), c.Endpoint(2)), old)
	belongs(t, r, "KVD-NET-001 warning", "KVD-RAFT-007 warning", "KVD-RAFT-011 warning")
	f := finding(t, r, "KVD-RAFT-011")
	mentions(t, f.Summary, "tocommit(", "is out of range")
	shows(t, r, "KVD-RAFT-011")
	last, commit := evidence(t, f, "last entry").Value, evidence(t, f, "committed by the running members").Value
	if commit-last < 500 {
		t.Errorf("last %.0f, committed %.0f", last, commit)
	}
	// Which of the three is the newest, when nothing runs.
	stop(t, c, 1, 2)
	three := lookAt(t, old, c.DataDir(1), c.DataDir(2))
	if len(three.Dirs) != 3 || three.Dirs[0].Newest || !strings.Contains(three.Newest, "keep ") || strings.Contains(three.Newest, "keep "+old) {
		t.Errorf("%q, %+v", three.Newest, three.Dirs)
	}
}

// A healthy cluster, also with certificates, five members and binary keys, gives none.
func TestCaseHealthy(t *testing.T) {
	t.Parallel()
	for _, members := range []int{1, 5} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			c := begin(t, members, 64<<20)
			put(t, c.Client(t), "\x00\xff/registry/", 800, 400, 300)
			belongs(t, look(t, connect(t, c), withHash))
		})
	}
}
