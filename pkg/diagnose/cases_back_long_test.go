//go:build long

package diagnose_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/server/servertest"
)

// restored is what a case of a restore has at hand.
type restored struct {
	old, now *servertest.Cluster
	later    string // a snapshot taken after the one that was restored
}

// Case C39: a cluster is restored from a snapshot of some time ago, and its revision
// goes back behind what clients have seen. Told by a later snapshot, by the old
// directory, and by metrics of before; a restore with a lifted revision gives none,
// and then watches of clients end, as they should.
func TestCaseRevisionBack(t *testing.T) {
	t.Parallel()
	back := "KVD-OPS-007 warning"
	live := func(t *testing.T, s restored, add func(in *diagnose.Input) error) diagnose.Report {
		t.Helper()
		in, err := diagnose.Collect(servertest.Context(t, time.Minute), connect(t, s.now), options(), discard)
		if err == nil {
			err = add(in)
		}
		if err != nil {
			t.Fatal(err)
		}
		return diagnose.Diagnose(in)
	}
	bySnapshot := func(t *testing.T, s restored) diagnose.Report {
		t.Helper()
		return live(t, s, func(in *diagnose.Input) error {
			return in.AddFile(t.Context(), s.later, diagnose.DirOptions{}, discard)
		})
	}
	byDir := func(t *testing.T, s restored) diagnose.Report {
		t.Helper()
		return live(t, s, func(in *diagnose.Input) error {
			return in.AddDir(t.Context(), s.old.DataDir(0), diagnose.DirOptions{}, discard)
		})
	}
	stopped := func(t *testing.T, s restored) diagnose.Report {
		t.Helper()
		stopAll(t, s.now)
		return lookAt(t, s.old.DataDir(0), s.now.DataDir(0))
	}
	for i, p := range []struct {
		name  string
		shape shape
		flags []string
		look  func(t *testing.T, s restored) diagnose.Report
		want  []string
	}{
		{"by a later snapshot", shape{}, nil, bySnapshot, []string{back}},
		{"three members with certificates, by a later snapshot", shape{members: 3, mtls: true}, nil, bySnapshot, []string{back}},
		{"by the directory of before", shape{}, nil, byDir, []string{back, "KVD-RAFT-012 critical"}},
		{"nothing runs", shape{}, nil, stopped, []string{back}},
		{"lifted, by a later snapshot", shape{}, []string{"--bump-revision", "auto"}, bySnapshot, nil},
		{"lifted, three, and nothing runs", shape{members: 3}, []string{"--bump-revision", "1000000"}, stopped, nil},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := goBack(t, p.shape, p.flags)
			lifted := len(p.flags) > 0
			watchFrom(t, s.now, 801, lifted)
			r := p.look(t, s)
			belongs(t, r, p.want...)
			if i == 0 {
				shows(t, r, "KVD-OPS-007")
			}
		})
	}
}

// goBack takes a snapshot at revision 301, goes on to 801, and restores the snapshot
// as a new cluster.
func goBack(t *testing.T, s shape, flags []string) restored {
	t.Helper()
	dir := t.TempDir()
	early, later := filepath.Join(dir, "early.db"), filepath.Join(dir, "later.db")
	old := s.start(t)
	put(t, old.Client(t), "/registry/pods/a/p", 300, 50, 50)
	kvdOn(t, old, "snapshot", "save", early)
	put(t, old.Client(t), "/registry/pods/a/p", 500, 50, 50)
	kvdOn(t, old, "snapshot", "save", later)
	settleDisk(t)
	stopAll(t, old)
	now := servertest.New(t, s.options(t))
	for i := range now.Len() {
		args := append([]string{"snapshot", "restore", early, "--name", now.Name(i), "--data-dir", now.DataDir(i), "--yes"}, flags...)
		for j := range now.Len() {
			args = append(args, "--member", now.Name(j)+"="+now.PeerURL(j))
		}
		kvd(t, args...)
	}
	startsAgain(t, now, "it was restored")
	return restored{old, now, later}
}

// watchFrom watches from where a client was: a lifted revision ends the watch, so that
// the client lists anew, and else nothing comes at all, whatever is written.
func watchFrom(t *testing.T, c *servertest.Cluster, revision int64, ends bool) {
	t.Helper()
	client := c.Client(t)
	ctx := servertest.Context(t, 5*time.Second)
	w := client.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(revision))
	put(t, client, "/registry/pods/a/p", 3, 3, 10)
	if !ends {
		select {
		case resp := <-w:
			t.Errorf("the watch hears something: %+v", resp)
		case <-time.After(time.Second):
		}
		return
	}
	if resp := <-w; resp.CompactRevision == 0 {
		t.Errorf("the watch does not end: %+v", resp)
	}
}

// Case C39, by metrics of before and after. The same names and token make the same
// member ID, as etcdutl does it.
func TestCaseRevisionBackByMetrics(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name string
		back bool
		want []string
	}{{"restored", true, []string{"KVD-OPS-007 warning"}}, {"only restarted", false, nil}} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := begin(t, 1, 0)
			put(t, c.Client(t), "k", 300, 50, 50)
			early := filepath.Join(dir, "early.db")
			kvdOn(t, c, "snapshot", "save", early)
			put(t, c.Client(t), "k", 500, 50, 50)
			before, after := filepath.Join(dir, "before.txt"), filepath.Join(dir, "after.txt")
			keepMetrics(t, c, 0, before)
			stopAll(t, c)
			if p.back {
				remove(t, c.DataDir(0))
				if out, err := exec.CommandContext(t.Context(), servertest.Reference(t, "etcdutl"), "snapshot", "restore", early, "--data-dir", c.DataDir(0), "--name", c.Name(0),
					"--initial-cluster", c.Name(0)+"="+c.PeerURL(0), "--initial-advertise-peer-urls", c.PeerURL(0), "--initial-cluster-token", "etcd-cluster").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			startsAgain(t, c, "it was stopped in order")
			keepMetrics(t, c, 0, after)
			in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
			if err := in.AddMetrics([]string{before, after}); err != nil {
				t.Fatal(err)
			}
			belongs(t, diagnose.Diagnose(in), p.want...)
		})
	}
}

// keepMetrics writes what a member's /metrics says to a file, as curl does.
func keepMetrics(t *testing.T, c *servertest.Cluster, i int, path string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "curl", "-sS", "-o", path, c.MetricsURL(i)+"/metrics").CombinedOutput()
	if err != nil {
		t.Fatalf("curl: %v: %s", err, out)
	}
	raw, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(raw), metrics.DBSize) {
		t.Fatalf("%s has no metrics: %v, %s bytes", path, err, strconv.Itoa(len(raw)))
	}
}
