package diagnose_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// notStarted is a cluster none of whose members runs.
func notStarted(t *testing.T, members int) *servertest.Cluster {
	t.Helper()
	return servertest.New(t, servertest.Options{Options: local.Options{Members: members, Args: []string{"--unsafe-no-fsync"}}})
}

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

// written is the directory of a member of one that has taken so many puts, stopped
// or killed, and the member.
func written(t *testing.T, puts int, args ...string) (*servertest.Cluster, string) {
	t.Helper()
	c := begin(t, 1, 0, args...)
	put(t, c.Client(t), "/registry/pods/a/p", puts, 100, 100)
	settleDisk(t)
	stop(t, c, 0)
	return c, c.DataDir(0)
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// Cases C13, C59, C66: what looks odd in a directory and is in order.
func TestCaseDirectoryInOrder(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{}) // with its file grown ahead, as in life
	put(t, c.Client(t), "k", 5, 5, 10)
	stop(t, c, 0)
	dir := c.DataDir(0)
	belongs(t, lookAt(t, dir))
	info, err := os.Stat(filepath.Join(dir, "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() < 1<<20 {
		t.Fatalf("the file has %d bytes: not the case", info.Size())
	}
}

// Case C51: a length of 0 hides what stands behind it.
func TestCaseHiddenRecords(t *testing.T) {
	t.Parallel()
	_, dir := written(t, 300)
	var at wal.Position
	n := 0
	if err := wal.Records(t.Context(), dir, func(r wal.Record) error {
		if r.Type == wal.EntryType && r.Entry.Index == 150 {
			at = r.Position
		}
		n++
		return nil
	}); err != nil || at.File == "" {
		t.Fatal(err, n)
	}
	overwrite(t, filepath.Join(dir, "member", "wal", at.File), at.Offset, make([]byte, 8))
	r := lookAt(t, dir)
	f := finding(t, r, "KVD-CORRUPT-003")
	shows(t, r, "KVD-CORRUPT-003")
	if f.Severity != diagnose.Critical {
		t.Errorf("%+v", f)
	}
	for _, g := range got(r) {
		if g != "KVD-CORRUPT-003 critical" && g != "KVD-CORRUPT-004 critical" && g != "KVD-CORRUPT-004 warning" {
			t.Errorf("unexpected %s", g)
		}
	}
	if evidence(t, f, "last entry").Value != 149 {
		t.Errorf("%+v", f.Evidence)
	}
}

// Case C56: the log is gone, and the way that works.
func TestCaseLogGone(t *testing.T) {
	t.Parallel()
	for _, puts := range []int{20, 700} {
		t.Run(fmt.Sprint(puts), func(t *testing.T) {
			t.Parallel()
			_, dir := written(t, puts)
			remove(t, filepath.Join(dir, "member", "wal"))
			r := lookAt(t, dir)
			belongs(t, r, "KVD-CORRUPT-004 critical")
			mentions(t, finding(t, r, "KVD-CORRUPT-004").Summary, "runs and answers nothing")
			to := filepath.Join(t.TempDir(), "new")
			kvd(t, "snapshot", "restore", filepath.Join(dir, "member", "snap", "db"), "--skip-hash-check", "--data-dir", to, "--yes")
			good := lookAt(t, to)
			belongs(t, good)
			remedied(t, "KVD-CORRUPT-004", r, good, "kvd snapshot restore DATA-DIR/member/snap/db --skip-hash-check --data-dir NEW --yes")
		})
	}
}

// Case C62: damaged and stale .snap files matter to older servers only.
func TestCaseSnapFiles(t *testing.T) {
	t.Parallel()
	c, dir := written(t, 300, "--snapshot-count=100")
	snaps, err := filepath.Glob(filepath.Join(dir, "member", "snap", "*.snap"))
	if err != nil || len(snaps) == 0 {
		t.Fatal(err, snaps)
	}
	belongs(t, lookAt(t, dir))
	copyDir(t, snaps[0], filepath.Join(dir, "member", "snap", "00000000000000ff-00000000000fffff.snap"))
	belongs(t, lookAt(t, dir)) // of an index that the log has never heard of
	overwrite(t, snaps[len(snaps)-1], 8, []byte("garbage"))
	r := lookAt(t, dir)
	belongs(t, r, "KVD-OPS-004 info")
	shows(t, r, "KVD-OPS-004")
	if err := c.StartMember(servertest.Context(t, time.Minute), 0); err != nil {
		t.Fatalf("it starts all the same: %v", err)
	}
}

// Case C67: in use by a running server, said at once, and by whom.
func TestCaseInUse(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	put(t, c.Client(t), "k", 50, 10, 10)
	began := time.Now()
	r := lookAt(t, c.DataDir(0))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	belongs(t, r, "KVD-OPS-003 info")
	mentions(t, finding(t, r, "KVD-OPS-003").Summary, fmt.Sprint(c.PID(0)))
	if len(r.NotLooked) == 0 {
		t.Error("that the database could not be looked at is not said")
	}
	stop(t, c, 0)
	good := lookAt(t, c.DataDir(0))
	belongs(t, good)
	remedied(t, "KVD-OPS-003", r, good, "stop the server")
}

// Case C41: a log of another life beside restored data.
func TestCaseOtherLog(t *testing.T) {
	t.Parallel()
	_, dir := written(t, 100)
	to := filepath.Join(t.TempDir(), "new")
	kvd(t, "snapshot", "restore", filepath.Join(dir, "member", "snap", "db"), "--skip-hash-check", "--data-dir", to, "--yes")
	in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
	if err := in.AddDir(t.Context(), to, diagnose.DirOptions{WALDir: filepath.Join(dir, "member", "wal")}, discard); err != nil {
		t.Fatal(err)
	}
	r := diagnose.Diagnose(in)
	belongs(t, r, "KVD-CORRUPT-004 critical")
	mentions(t, finding(t, r, "KVD-CORRUPT-004").Summary, "which the database does not know")
}
