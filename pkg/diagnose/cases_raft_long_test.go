//go:build long

package diagnose_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	join(t, c, true)
	r := look(t, connect(t, c, c.Endpoint(0)))
	belongs(t, r, "KVD-RAFT-006 info")
	mentions(t, finding(t, r, "KVD-RAFT-006").Summary, "100.0 % caught up")
	kvd(t, "member", "promote", "m2", "--yes", "--endpoints", c.Endpoint(0))
	good := look(t, connect(t, c))
	belongs(t, good, "KVD-RAFT-007 warning") // two voters survive nothing
	remedied(t, "KVD-RAFT-006", r, good, "kvd member promote m2 --yes")
	join(t, c, false)
	belongs(t, look(t, connect(t, c)))
	join(t, c, false)
	belongs(t, look(t, connect(t, c)), "KVD-RAFT-009 info")
}

// Case C77: learners beside three voters, which survive one failure with them and
// without.
func TestCaseLearnerOfMany(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name  string
		shape shape
		state string // of the learner
		want  []string
		says  string
	}{
		{"one that keeps up, with certificates and users", shape{members: 3, mtls: true, auth: true}, "runs", []string{"KVD-RAFT-006 info"}, "caught up"},
		{"one that never started", shape{members: 3}, "added", []string{"KVD-RAFT-006 info"}, "was added and never started"},
		{"one that is down", shape{members: 3}, "down", []string{"KVD-NET-001 warning", "KVD-RAFT-006 warning"}, "does not answer"},
		{"one that keeps up, of etcd 3.5", shape{members: 3, version: "3.5"}, "runs", []string{"KVD-RAFT-006 info"}, "caught up"},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			voters := c.Endpoints()
			if p.state == "added" {
				i, err := c.Reserve()
				if err != nil {
					t.Fatal(err)
				}
				waitFor(t, func() bool {
					_, err := c.Client(t, voters...).MemberAddAsLearner(servertest.Context(t, time.Minute), []string{c.PeerURL(i)})
					return err == nil
				})
			} else {
				join(t, c, true)
			}
			if p.state == "down" {
				stop(t, c, 3)
			}
			r := look(t, connect(t, c, voters...))
			belongs(t, r, p.want...)
			mentions(t, finding(t, r, "KVD-RAFT-006").Summary, p.says)
		})
	}
}

// join adds a member and starts it.
func join(t *testing.T, c *servertest.Cluster, learner bool) {
	t.Helper()
	voters := c.Endpoints()
	i, err := c.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { // etcd refuses until a member that has just joined is connected for 5 s
		ctx, client := servertest.Context(t, time.Minute), c.Client(t, voters...)
		if learner {
			_, err = client.MemberAddAsLearner(ctx, []string{c.PeerURL(i)})
		} else {
			_, err = client.MemberAdd(ctx, []string{c.PeerURL(i)})
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

// Case C42: a restore in the place of a member makes another cluster.
func TestCaseRestoredMember(t *testing.T) {
	t.Parallel()
	for i, p := range []struct {
		name  string
		shape shape
		who   role
		want  []string
	}{
		{"a follower of three", shape{members: 3}, follower, []string{"KVD-NET-001 warning", "KVD-RAFT-007 warning", "KVD-RAFT-012 critical"}},
		{"the leader of three, with certificates", shape{members: 3, mtls: true}, leader, []string{"KVD-NET-001 warning", "KVD-RAFT-007 warning", "KVD-RAFT-012 critical"}},
		{"one of five", shape{members: 5}, follower, []string{"KVD-NET-001 warning", "KVD-RAFT-012 critical"}},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			put(t, c.Client(t), "a", 100, 20, 10)
			snap := filepath.Join(t.TempDir(), "s.db")
			kvdOn(t, c, "snapshot", "save", snap)
			who := pick(t, c, p.who)
			stop(t, c, who)
			remove(t, c.DataDir(who))
			kvd(t, "snapshot", "restore", snap, "--data-dir", c.DataDir(who), "--member", c.Name(who)+"="+c.PeerURL(who), "--yes")
			calm(t, c)
			r := lookWithDir(t, connect(t, c, others(c, who)...), c.DataDir(who))
			if !r.Has("KVD-RAFT-012") {
				t.Errorf("the directory alone, beside the others: %q", got(r))
			}
			if err := c.Launch(who, "--initial-cluster="+c.Name(who)+"="+c.PeerURL(who)); err != nil {
				t.Fatal(err)
			}
			var r12 diagnose.Report
			for _, endpoints := range [][]string{append(others(c, who), c.Endpoint(who)), others(c, who)[:1]} { // the first says which cluster is meant
				client := connect(t, c, endpoints...)
				waitFor(t, func() bool { v, err := client.View(t.Context()); return err == nil && len(v.Strangers) == 1 })
				r12 = look(t, client)
				belongs(t, r12, p.want...)
				f := finding(t, r12, "KVD-RAFT-012")
				if f.Subject != c.Endpoint(who) || !strings.Contains(strings.Join(f.Remedy, "\n"), "kvd member replace "+c.Name(who)) {
					t.Errorf("%+v", f)
				}
				if x := finding(t, r12, "KVD-NET-001"); !slices.Contains(x.ExplainedBy, "KVD-RAFT-012") {
					t.Errorf("%s is not explained: %+v", x.ID, x)
				}
			}
			if i == 0 {
				shows(t, r12, "KVD-RAFT-012")
			}
			stopAll(t, c)
			dirs := []string{}
			for i := range c.Len() {
				dirs = append(dirs, c.DataDir(i))
			}
			if r := lookAt(t, dirs...); got(r) == nil || !r.Has("KVD-RAFT-012") || r.Has("KVD-OPS-007") {
				t.Errorf("the directories, when nothing runs: %q", got(r))
			}
		})
	}
}

// others are the endpoints of all members but one.
func others(c *servertest.Cluster, but int) []string {
	var out []string
	for i := range c.Len() {
		if i != but {
			out = append(out, c.Endpoint(i))
		}
	}
	return out
}

// calm waits until whoever is left has a leader, and did not just elect it.
func calm(t *testing.T, c *servertest.Cluster) {
	t.Helper()
	c.Leader(t)
	c.CheckEqualContent(t)
}

// Case C61: an old copy of a data directory is put back; or, of a restore with the
// same names and token (etcdutl makes one), a log of the same cluster that ends early.
func TestCaseOldCopy(t *testing.T) {
	t.Parallel()
	down := []string{"KVD-NET-001 warning", "KVD-RAFT-007 warning", "KVD-RAFT-011 warning"}
	for i, p := range []struct {
		name     string
		shape    shape
		who      role
		restored bool
		want     []string
	}{
		{"a follower of three", shape{members: 3}, follower, false, down},
		{"the leader of three, with certificates and users", shape{members: 3, mtls: true, auth: true}, leader, false, down},
		{"one of five", shape{members: 5}, follower, false, []string{"KVD-NET-001 warning", "KVD-RAFT-011 warning"}},
		{"a restore of the same names and token", shape{members: 3}, follower, true, down},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			put(t, c.Client(t), "a", 50, 20, 10)
			who := pick(t, c, p.who)
			settleDisk(t)
			stop(t, c, who)
			old := filepath.Join(t.TempDir(), "old")
			if p.restored {
				var members []string
				for i := range c.Len() {
					members = append(members, c.Name(i)+"="+c.PeerURL(i))
				}
				if out, err := exec.CommandContext(t.Context(), servertest.Reference(t, "etcdutl"), "snapshot", "restore", c.DBPath(who), "--skip-hash-check", "--data-dir", old, "--name", c.Name(who),
					"--initial-cluster", strings.Join(members, ","), "--initial-advertise-peer-urls", c.PeerURL(who), "--initial-cluster-token", "etcd-cluster").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			} else {
				copyDir(t, c.DataDir(who), old)
			}
			if err := c.StartMember(servertest.Context(t, time.Minute), who); err != nil {
				t.Fatal(err)
			}
			put(t, c.Client(t), "a", 500, 20, 10)
			copied := finding(t, lookWithDir(t, connect(t, c, c.Endpoints()...), old), "KVD-RAFT-011")
			mentions(t, copied.Summary, "it looks like a copy: "+c.Name(who))
			mentions(t, strings.Join(copied.Remedy, " "), "start nothing on it")
			stop(t, c, who)
			calm(t, c)
			r := lookWithDir(t, connect(t, c, others(c, who)...), old)
			belongs(t, r, p.want...)
			f := finding(t, r, "KVD-RAFT-011")
			mentions(t, f.Summary, "tocommit(", "is out of range")
			last, commit := evidence(t, f, "last entry").Value, evidence(t, f, "committed by the running members").Value
			if commit-last < 500 {
				t.Errorf("last %.0f, committed %.0f", last, commit)
			}
			if i == 0 {
				shows(t, r, "KVD-RAFT-011")
			}
			panics(t, c, who, old)
			// Which of them is the newest, when nothing runs.
			dirs := []string{old}
			for i := range c.Len() {
				if i != who {
					stop(t, c, i)
					dirs = append(dirs, c.DataDir(i))
				}
			}
			all := lookAt(t, dirs...)
			if len(all.Dirs) != c.Len() || all.Dirs[0].Newest || !strings.Contains(all.Newest, "keep ") || strings.Contains(all.Newest, "keep "+old) {
				t.Errorf("%q, %+v", all.Newest, all.Dirs)
			}
		})
	}
}

// panics fails the test unless a member ends on an old directory as was said.
func panics(t *testing.T, c *servertest.Cluster, who int, old string) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.Rename(c.DataDir(who), kept); err != nil {
		t.Fatal(err)
	}
	copyDir(t, old, c.DataDir(who))
	if err := c.Launch(who); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Exited(who):
	case <-time.After(time.Minute):
		t.Fatal("it runs")
	}
	raw, err := os.ReadFile(c.LogPath(who))
	if err != nil || !strings.Contains(string(raw), "is out of range [lastIndex(") {
		t.Errorf("%v\n%s", err, c.LogTail(who, 10))
	}
}

// A healthy cluster, also with certificates, five members and binary keys, gives none.
func TestCaseHealthy(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]shape{"one": {members: 1}, "five": {members: 5}, "three with certificates and users": {members: 3, mtls: true, auth: true}, "three of etcd 3.6": {members: 3, version: "3.6"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.quota = 64 << 20
			c := s.start(t)
			put(t, c.Client(t), "\x00\xff/registry/", 800, 400, 300)
			belongs(t, look(t, connect(t, c), withHash))
		})
	}
}
