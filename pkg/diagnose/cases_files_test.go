package diagnose_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/wal"
	"kvd/pkg/server/servertest"
)

// settleDisk waits until the database has what was written: it is committed each
// 100 ms.
func settleDisk(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(400 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

func overwrite(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(b, at)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// written is a cluster that has taken so many puts and does not run any more, and the
// member of a role.
func written(t *testing.T, s shape, puts int, r role) (*servertest.Cluster, int) {
	t.Helper()
	c := s.start(t)
	put(t, c.Client(t), "/registry/pods/a/p", puts, 100, 100)
	settleDisk(t)
	i := pick(t, c, r)
	stopAll(t, c)
	return c, i
}

func stopAll(t *testing.T, c *servertest.Cluster) {
	t.Helper()
	if err := c.Stop(servertest.Context(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// Cases C13, C66: a file that was grown ahead, as in life, is in order.
func TestCaseDirectoryInOrder(t *testing.T) {
	t.Parallel()
	c, _ := written(t, shape{fsync: true}, 5, leader)
	belongs(t, lookAt(t, c.DataDir(0)))
	info, err := os.Stat(c.DBPath(0))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() < 1<<20 {
		t.Fatalf("the file has %d bytes: not the case", info.Size())
	}
}

// Cases C81 and C83, when nothing runs: a large value and a lease with many keys stand in
// the files as well.
func TestCaseStoredObjects(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client, ctx := c.Client(t), servertest.Context(t, time.Minute)
	put(t, client, "/registry/configmaps/a/big", 1, 1, 1400<<10)
	put(t, client, "/registry/services/endpoints/a/e", 3, 3, 200<<10)
	put(t, client, "/registry/secrets/a/s", 3, 3, 300<<10) // usual
	lease, err := client.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	const each, txns = 128, 80
	for i := range txns {
		var ops []clientv3.Op
		for j := range each {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/app/%d/%d", i, j), "v", clientv3.WithLease(lease.ID)))
		}
		if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	snap := filepath.Join(t.TempDir(), "s.db")
	kvdOn(t, c, "snapshot", "save", snap)
	settleDisk(t)
	stopAll(t, c)
	want := []string{"KVD-LEASE-001 warning", "KVD-OBJECT-001 warning", "KVD-OBJECT-002 warning"}
	r := lookAt(t, c.DataDir(0))
	belongs(t, r, want...)
	if n := evidence(t, finding(t, r, "KVD-LEASE-001"), "keys").Value; n != each*txns {
		t.Errorf("%g keys on the lease", n)
	}
	for _, f := range r.Findings { // the commands that are advised work as they stand
		for _, s := range f.Next {
			if words := strings.Fields(s.Command); len(words) > 0 && words[0] == "kvd" {
				if out := kvd(t, words[1:]...); !strings.Contains(out, "/registry/configmaps/a/big") && !strings.Contains(out, "/app/0/0") {
					t.Errorf("%s:\n%s", s.Command, out)
				}
			}
		}
	}
	in := &diagnose.Input{Limits: diagnose.DefaultLimits()}
	if err := in.AddFile(t.Context(), snap, diagnose.DirOptions{}, discard); err != nil {
		t.Fatal(err)
	}
	belongs(t, diagnose.Diagnose(in), want...)
}

// zeroLength puts a length of 0 into the record of an entry.
func zeroLength(t *testing.T, dir string, index uint64) {
	t.Helper()
	var at wal.Position
	if err := wal.Records(t.Context(), dir, func(r wal.Record) error {
		if r.Type == wal.EntryType && r.Entry.Index == index {
			at = r.Position
		}
		return nil
	}); err != nil || at.File == "" {
		t.Fatal(err, index)
	}
	overwrite(t, filepath.Join(dir, "member", "wal", at.File), at.Offset, make([]byte, 8))
}

// Case C51: a length of 0 hides what stands behind it. Where the database has come
// further than that, the two do not fit any more either.
func TestCaseHiddenRecords(t *testing.T) {
	t.Parallel()
	for i, p := range []struct {
		name  string
		shape shape
		who   role
		kill  bool
		puts  int
		entry uint64
		want  []string
		says  []string
		slow  bool
	}{
		{name: "in the middle", puts: 300, entry: 150, want: []string{"KVD-CORRUPT-003 critical"}, says: []string{"is filled with zeros", "runs and answers nothing"}},
		{name: "a database that has not come that far", shape: shape{args: []string{"--backend-batch-interval=1h", "--backend-batch-limit=100000"}}, kill: true, puts: 200, entry: 100,
			want: []string{"KVD-CORRUPT-003 critical"}, says: []string{"is filled with zeros"}},
		{name: "near the end, a follower of three", shape: shape{members: 3}, who: follower, puts: 200, entry: 190,
			want: []string{"KVD-CORRUPT-003 critical", "KVD-CORRUPT-004 critical"}, says: []string{"is filled with zeros"}, slow: true},
		{name: "etcd 3.5", shape: shape{version: "3.5"}, puts: 100, entry: 40, want: []string{"KVD-CORRUPT-003 critical", "KVD-VERSION-004 warning"},
			says: []string{"is filled with zeros", "runs and answers nothing"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := p.shape.start(t)
			put(t, c.Client(t), "/registry/pods/a/p", p.puts, 100, 100)
			who := pick(t, c, p.who)
			if p.kill {
				c.Kill(who)
			} else {
				settleDisk(t)
				stopAll(t, c)
			}
			zeroLength(t, c.DataDir(who), p.entry)
			r := lookAt(t, c.DataDir(who))
			belongs(t, r, p.want...)
			f := finding(t, r, "KVD-CORRUPT-003")
			mentions(t, f.Summary, p.says...)
			mentions(t, f.Remedy[0], "copy the WAL folder before anything is started on it")
			if last := evidence(t, f, "last entry").Value; last != float64(p.entry-1) {
				t.Errorf("last entry %.0f, want %d", last, p.entry-1)
			}
			if i == 0 {
				shows(t, r, "KVD-CORRUPT-003")
			}
		})
	}
}

// Case C56: the log is gone, and the way that works.
func TestCaseLogGone(t *testing.T) {
	t.Parallel()
	for i, p := range []struct {
		name  string
		shape shape
		who   role
		puts  int
		own   bool // the log is in a folder of its own, which nobody names
		says  string
		slow  bool
	}{
		{name: "a few entries", puts: 20, says: "runs and answers nothing"},
		{name: "many", puts: 700, says: "runs and answers nothing", slow: true},
		{name: "a log elsewhere, forgotten", puts: 100, own: true, says: "runs and answers nothing"},
		{name: "a follower of three, with users", shape: shape{members: 3, auth: true}, who: follower, puts: 100, says: "there is no log", slow: true},
		{name: "etcd 3.4", shape: shape{version: "3.4"}, puts: 50, says: "runs and answers nothing", slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			if p.own {
				p.shape.args = []string{"--wal-dir=" + filepath.Join(t.TempDir(), "wal")}
			}
			c, who := written(t, p.shape, p.puts, p.who)
			dir := c.DataDir(who)
			remove(t, filepath.Join(dir, "member", "wal"))
			r := lookAt(t, dir)
			belongs(t, r, "KVD-CORRUPT-004 critical")
			mentions(t, finding(t, r, "KVD-CORRUPT-004").Summary, p.says)
			if p.shape.members > 1 {
				return // one of several is replaced
			}
			to := filepath.Join(t.TempDir(), "new")
			kvd(t, "snapshot", "restore", c.DBPath(who), "--skip-hash-check", "--data-dir", to, "--yes")
			good := lookAt(t, to)
			belongs(t, good)
			if i == 0 {
				remedied(t, "KVD-CORRUPT-004", r, good, "kvd snapshot restore DATA-DIR/member/snap/db --skip-hash-check --data-dir NEW --yes")
			}
		})
	}
}

// Case C62: damaged and stale .snap files matter to older servers only. A start
// takes them as they are, and so does one without any.
func TestCaseSnapFiles(t *testing.T) {
	t.Parallel()
	stale := func(t *testing.T, snaps []string) { // of an index that the log has never heard of
		t.Helper()
		copyDir(t, snaps[0], filepath.Join(filepath.Dir(snaps[0]), "00000000000000ff-00000000000fffff.snap"))
	}
	garbage := func(t *testing.T, snaps []string) {
		t.Helper()
		overwrite(t, snaps[len(snaps)-1], 8, []byte("garbage"))
	}
	for i, p := range []struct {
		name  string
		shape shape
		do    func(t *testing.T, snaps []string)
		want  []string
		slow  bool
	}{
		{name: "the newest is garbage", do: garbage, want: []string{"KVD-OPS-004 info"}},
		{name: "one that the log does not know", do: stale},
		{name: "all are gone", shape: shape{mtls: true}, do: func(t *testing.T, snaps []string) {
			for _, s := range snaps {
				remove(t, s)
			}
		}},
		{name: "one is empty, of a follower of three", shape: shape{members: 3}, do: func(t *testing.T, snaps []string) {
			if err := os.Truncate(snaps[0], 0); err != nil {
				t.Fatal(err)
			}
		}, want: []string{"KVD-OPS-004 info"}, slow: true},
		{name: "garbage of etcd 3.6, started by 3.7", shape: shape{version: "3.6"}, do: garbage, want: []string{"KVD-OPS-004 info"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			p.shape.args = []string{"--snapshot-count=100"}
			c, who := written(t, p.shape, 300, follower)
			dir := c.DataDir(who)
			snaps, err := filepath.Glob(filepath.Join(dir, "member", "snap", "*.snap"))
			if err != nil || len(snaps) == 0 {
				t.Fatal(err, snaps)
			}
			belongs(t, lookAt(t, dir))
			p.do(t, snaps)
			r := lookAt(t, dir)
			belongs(t, r, p.want...)
			if i == 0 {
				shows(t, r, "KVD-OPS-004")
			}
			startsAgain(t, c, dir)
		})
	}
}

// startsAgain fails the test unless etcd 3.7 starts on a cluster's directories: with
// its own server, and on a copy where another version wrote them.
func startsAgain(t *testing.T, c *servertest.Cluster, dir string) {
	t.Helper()
	for i := range c.Len() {
		if err := c.Launch(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitReady(servertest.Context(t, time.Minute)); err != nil {
		t.Fatalf("%s: it starts all the same: %v", dir, err)
	}
}

// Case C67: in use by a running server, said at once, and by whom.
func TestCaseInUse(t *testing.T) {
	t.Parallel()
	dir := func(t *testing.T, c *servertest.Cluster, i int) diagnose.Report {
		t.Helper()
		return lookAt(t, c.DataDir(i))
	}
	for i, p := range []struct {
		name  string
		shape shape
		own   bool // the log is in a folder of its own
		look  func(t *testing.T, c *servertest.Cluster, i int) diagnose.Report
		more  []string // beside that it is in use
		after []string // when it is not any more
		slow  bool
	}{
		{name: "the directory", look: dir},
		{name: "the database as a snapshot", look: func(t *testing.T, c *servertest.Cluster, i int) diagnose.Report {
			t.Helper()
			in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
			if err := in.AddFile(t.Context(), c.DBPath(i), diagnose.DirOptions{}, discard); err != nil {
				t.Fatal(err)
			}
			return diagnose.Diagnose(in)
		}, after: []string{"KVD-CORRUPT-005 info"}}, // a copied database has no hash
		{name: "a log elsewhere", own: true, look: func(t *testing.T, c *servertest.Cluster, i int) diagnose.Report {
			t.Helper()
			return lookBeside(t, c.DataDir(i), filepath.Join(c.Root(), "wal"))
		}},
		{name: "a follower of three", shape: shape{members: 3}, look: dir, slow: true},
		{name: "etcd 3.4", shape: shape{version: "3.4"}, look: dir, more: []string{"KVD-VERSION-004 info"}, after: []string{"KVD-VERSION-004 warning"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			if p.own {
				p.shape.dir = t.TempDir()
				p.shape.args = []string{"--wal-dir=" + filepath.Join(p.shape.dir, "wal")}
			}
			c := p.shape.start(t)
			put(t, c.Client(t), "k", 50, 10, 10)
			who := pick(t, c, follower)
			began := time.Now()
			r := p.look(t, c, who)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			belongs(t, r, append(p.more, "KVD-OPS-003 info")...)
			mentions(t, finding(t, r, "KVD-OPS-003").Summary, fmt.Sprint(c.PID(who)))
			if len(r.NotLooked) == 0 {
				t.Error("that the database could not be looked at is not said")
			}
			stopAll(t, c)
			good := p.look(t, c, who)
			belongs(t, good, p.after...)
			if i == 0 {
				remedied(t, "KVD-OPS-003", r, good, "stop the server")
			}
			if p.own { // the disk of the data is lost, and that of the log is not
				if err := os.Remove(c.DBPath(who)); err != nil {
					t.Fatal(err)
				}
				lost := p.look(t, c, who)
				belongs(t, lost, "KVD-CORRUPT-004 warning")
				f := finding(t, lost, "KVD-CORRUPT-004")
				mentions(t, f.Summary, "the database is gone, and the log reaches back to index 1")
				if last := f.Next[len(f.Next)-1].Command; last != "kvd wal verify "+filepath.Join(c.Root(), "wal") {
					t.Errorf("next: %s", last)
				}
			}
		})
	}
}

// lookBeside diagnoses a directory whose log is elsewhere.
func lookBeside(t *testing.T, dir, log string) diagnose.Report {
	t.Helper()
	in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
	if err := in.AddDir(t.Context(), dir, diagnose.DirOptions{WALDir: log}, discard); err != nil {
		t.Fatal(err)
	}
	return diagnose.Diagnose(in)
}
