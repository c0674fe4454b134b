package diagnose_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/server/servertest"
)

// Case C41: a log of another life beside restored data. That it is the log of the
// same names and the same token changes nothing.
func TestCaseOtherLog(t *testing.T) {
	t.Parallel()
	utl := func(t *testing.T) string { t.Helper(); return servertest.Reference(t, "etcdutl") }
	own := func(t *testing.T) string { t.Helper(); return servertest.Binary(t) }
	for _, p := range []struct {
		name  string
		shape shape
		tool  func(t *testing.T) string // that restores
		token string
		names bool // the members are named as they were
		says  string
		slow  bool
	}{
		{name: "another member", tool: own, token: "t", says: "which the database does not know"},
		{name: "the same member, by etcdutl", tool: utl, token: "etcd-cluster", names: true, says: "the log is of another life", slow: true},
		{name: "one of three, with the same names, by etcdutl", shape: shape{members: 3, mtls: true}, tool: utl, token: "etcd-cluster", names: true, says: "the log is of another life", slow: true},
		{name: "one of three, of another token", shape: shape{members: 3}, tool: own, token: "other", names: true, says: "which the database does not know", slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c, _ := written(t, p.shape, 100, leader)
			to := filepath.Join(t.TempDir(), "new")
			members, name := []string{"other=http://127.0.0.1:1"}, "other"
			if p.names {
				members, name = nil, c.Name(0)
				for i := range c.Len() {
					members = append(members, c.Name(i)+"="+c.PeerURL(i))
				}
			}
			args := []string{"snapshot", "restore", c.DBPath(0), "--skip-hash-check", "--data-dir", to, "--name", name, "--initial-cluster", strings.Join(members, ","),
				"--initial-cluster-token", p.token, "--initial-advertise-peer-urls", strings.TrimPrefix(members[0], name+"=")}
			tool := p.tool(t)
			if tool == servertest.Binary(t) {
				args = append(args, "--yes")
			}
			if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			belongs(t, lookAt(t, to))
			r := lookBeside(t, to, filepath.Join(c.DataDir(0), "member", "wal"))
			belongs(t, r, "KVD-CORRUPT-004 critical")
			mentions(t, finding(t, r, "KVD-CORRUPT-004").Summary, p.says)
		})
	}
}

// Case C57: an old database was put in the place of the newer one. What is still in
// the log decides whether anything is lost.
func TestCaseOldDatabase(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name   string
		shape  shape
		who    role
		size   int // of a value; a segment of the log has 64 MiB
		purged bool
		says   []string
		slow   bool
	}{
		{name: "a log from the beginning", size: 100, says: []string{"no entry is missing from index", "without its snapshot records"}, slow: true},
		{name: "a follower of three, with certificates", shape: shape{members: 3, mtls: true}, who: follower, size: 300, says: []string{"no entry is missing from index"}, slow: true},
		{name: "a log whose oldest segment was purged", size: 1 << 20, purged: true, says: []string{"were in the lost database only"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			p.shape.args = []string{"--snapshot-count=10", "--snapshot-catchup-entries=5"}
			c := p.shape.start(t)
			put(t, c.Client(t), "k", 50, 100, 100)
			settleDisk(t)
			who := pick(t, c, p.who)
			stopAll(t, c)
			copyDir(t, c.DBPath(who), c.DBPath(who)+".old")
			startsAgain(t, c, c.DataDir(who))
			put(t, c.Client(t), "k", 100, 10, p.size)
			c.CheckEqualContent(t)
			settleDisk(t)
			stopAll(t, c)
			if err := os.Rename(c.DBPath(who)+".old", c.DBPath(who)); err != nil {
				t.Fatal(err)
			}
			if p.purged {
				remove(t, oldestSegment(t, c.DataDir(who)))
			}
			r := lookAt(t, c.DataDir(who))
			belongs(t, r, "KVD-CORRUPT-004 critical")
			f := finding(t, r, "KVD-CORRUPT-004")
			mentions(t, f.Summary, p.says...)
			if evidence(t, f, "newest snapshot record").Value <= evidence(t, f, "consistent index of the database").Value {
				t.Errorf("%+v", f.Evidence)
			}
		})
	}
}

// oldestSegment is what etcd removes first when it has more segments than --max-wals.
func oldestSegment(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(all) < 2 {
		t.Fatalf("%v: segments %q", err, all)
	}
	return all[0]
}

// Case C91: the database is gone, and what is still in the log.
func TestCaseDatabaseGone(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name   string
		shape  shape
		who    role
		size   int
		purged bool
		want   string
		says   []string
		starts bool // and has everything again
	}{
		{name: "a log from the beginning", size: 100, want: "KVD-CORRUPT-004 warning", says: []string{"the log reaches back to index 1"}, starts: true},
		{name: "a log from the beginning, of a leader of three", shape: shape{members: 3}, who: leader, size: 100, want: "KVD-CORRUPT-004 warning", says: []string{"the log reaches back to index 1"}, starts: true},
		{name: "with snapshot records", shape: shape{args: []string{"--snapshot-count=20"}}, size: 100, want: "KVD-CORRUPT-004 critical", says: []string{"no entry is missing from index 1 on"}},
		{name: "with snapshot records, purged", shape: shape{args: []string{"--snapshot-count=20", "--snapshot-catchup-entries=5"}}, size: 1 << 20, purged: true,
			want: "KVD-CORRUPT-004 critical", says: []string{"were in the lost database only"}},
		{name: "with snapshot records, of etcd 3.5", shape: shape{version: "3.5", args: []string{"--snapshot-count=20"}}, size: 100, want: "KVD-CORRUPT-004 critical",
			says: []string{"no entry is missing from index 1 on"}},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, true)
			c := p.shape.start(t)
			put(t, c.Client(t), "k", 100, 10, p.size)
			settleDisk(t)
			who := pick(t, c, p.who)
			stopAll(t, c)
			remove(t, c.DBPath(who))
			if p.purged {
				remove(t, oldestSegment(t, c.DataDir(who)))
			}
			r := lookAt(t, c.DataDir(who))
			belongs(t, r, p.want)
			f := finding(t, r, "KVD-CORRUPT-004")
			mentions(t, f.Summary, p.says...)
			mentions(t, f.Remedy[0], "keep a copy of the directory")
			if !p.starts {
				return
			}
			startsAgain(t, c, c.DataDir(who))
			got, err := c.Client(t, c.Endpoint(who)).Get(servertest.Context(t, time.Minute), "k7")
			if err != nil || len(got.Kvs) != 1 || got.Header.Revision != 101 {
				t.Errorf("after the start: %v, %v", got, err)
			}
			c.CheckEqualContent(t)
		})
	}
}

// Case C91 (c): the log begins with a restore, so that it does not have everything.
func TestCaseDatabaseOfRestoreGone(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name   string
		puts   int // after the restore
		others int // members beside the one
	}{{"one member", 100, 0}, {"nothing written since", 0, 0}, {"one of three", 100, 2}} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, true)
			src, _ := written(t, shape{}, 100, leader)
			c := notStarted(t, 1+p.others)
			for i := range c.Len() {
				args := []string{"snapshot", "restore", src.DBPath(0), "--skip-hash-check", "--name", c.Name(i), "--data-dir", c.DataDir(i), "--yes"}
				for j := range c.Len() {
					args = append(args, "--member", c.Name(j)+"="+c.PeerURL(j))
				}
				kvd(t, args...)
			}
			startsAgain(t, c, c.DataDir(0))
			put(t, c.Client(t), "later", p.puts, 10, 10)
			stopAll(t, c)
			remove(t, c.DBPath(0))
			r := lookAt(t, c.DataDir(0))
			belongs(t, r, "KVD-CORRUPT-004 critical")
			mentions(t, finding(t, r, "KVD-CORRUPT-004").Summary, "the log begins with a restore")
		})
	}
}
