//go:build long

package diagnose_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// Case C81: the ladder of sizes. What is near the limit is named.
func TestCaseSizes(t *testing.T) {
	t.Parallel()
	const larger = "--max-request-bytes=10485760"
	for i, p := range []struct {
		name  string
		shape shape
		kind  string
		count int
		size  int
		want  []string
	}{
		{"one Secret", shape{args: []string{larger}}, "secrets", 1, 1400 << 10, []string{"KVD-OBJECT-001 warning"}},
		{"several, beyond what a usual server takes, three members", shape{members: 3, args: []string{larger}}, "configmaps", 3, 1900 << 10, []string{"KVD-OBJECT-001 warning"}},
		{"with certificates and users, and the usual limit", shape{mtls: true, auth: true}, "widgets.example.com", 2, 1500 << 10, []string{"KVD-OBJECT-001 warning"}},
		{"many below 1 MiB", shape{}, "configmaps", 50, 700 << 10, nil},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			client := c.Client(t)
			put(t, client, "/registry/configmaps/b/c", 20, 20, 500<<10)
			belongs(t, look(t, connect(t, c), all))
			prefix := "/registry/" + p.kind + "/a/x"
			if p.kind == "widgets.example.com" {
				prefix = "/registry/example.com/widgets/a/x"
			}
			put(t, client, prefix, p.count, p.count, p.size)
			r := look(t, connect(t, c), all)
			belongs(t, r, p.want...)
			if len(p.want) == 0 {
				return
			}
			f := finding(t, r, "KVD-OBJECT-001")
			if f.Subject != p.kind || evidence(t, f, "largest seen").Value < float64(p.size) {
				t.Errorf("%s: %+v", f.Subject, f.Evidence)
			}
			if _, err := client.Delete(servertest.Context(t, time.Minute), prefix, clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
			good := look(t, connect(t, c), all)
			belongs(t, good)
			if i == 0 {
				remedied(t, "KVD-OBJECT-001", r, good, "store large content elsewhere, and its address here")
			}
		})
	}
}

// all reads every value of a small store.
func all(o *diagnose.CollectOptions) { o.SampleBytes = 256 << 20 }

// slowDisk delays what a member flushes, for real, until the test ends.
func slowDisk(t *testing.T, strace string, pid int, delay time.Duration) {
	t.Helper()
	slow := exec.CommandContext(t.Context(), strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync",
		"-e", "inject=fdatasync:delay_enter="+strconv.FormatInt(delay.Microseconds(), 10), "-p", strconv.Itoa(pid))
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slow.Process.Signal(os.Interrupt); _ = slow.Wait() })
}

// Case C79 with real disks: whose flushes are delayed is named, with the ratio to its
// peers where it is one. With healthy disks the same load names nobody. Each is looked
// at on the cluster, and by what its metrics said before and after.
func TestCaseSlowDisk(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not there")
	}
	one := "KVD-DISK-001 warning"
	for i, p := range []struct {
		name  string
		shape shape
		slow  func(lead int) []int
		want  []string
		alone bool // it is told as one of several
	}{
		{"a follower of three", shape{members: 3}, func(lead int) []int { return []int{(lead + 1) % 3} }, []string{one}, true},
		{"the leader of three", shape{members: 3}, func(lead int) []int { return []int{lead} }, []string{one}, true},
		{"all of three", shape{members: 3}, func(int) []int { return []int{0, 1, 2} }, []string{one, one, one}, false},
		{"the only one, of etcd 3.6", shape{version: "3.6"}, func(int) []int { return []int{0} }, []string{one}, false},
		{"none", shape{members: 3}, func(int) []int { return nil }, nil, false},
	} {
		t.Run(p.name, func(t *testing.T) { // one after the other: how fast the machine is matters here
			p.shape.fsync, p.shape.dir = true, memory(t)
			c := p.shape.start(t)
			load, stopLoad := context.WithCancel(t.Context())
			defer stopLoad()
			go writeSteadily(load, c.Client(t))
			slow := p.slow(pick(t, c, leader))
			for _, m := range slow {
				slowDisk(t, strace, c.PID(m), 60*time.Millisecond)
			}
			limits := diagnose.DefaultLimits() // of a disk's log alone: commits wait for the same disk
			limits.SlowApplies, limits.CommitP99 = 1e6, 1e6
			files := keepAllMetrics(t, c, "before")
			r := look(t, connect(t, c), func(o *diagnose.CollectOptions) { o.Limits, o.Interval = limits, 10*time.Second })
			files = append(files, keepAllMetrics(t, c, "after")...)
			belongs(t, r, p.want...)
			for _, f := range r.Findings {
				if p.alone && f.Subject != c.Name(slow[0]) {
					t.Errorf("subject %s, want %s: %s", f.Subject, c.Name(slow[0]), f.Summary)
				}
				if p.alone {
					mentions(t, f.Summary, "and only its", "times that of its peers")
				}
			}
			in := &diagnose.Input{At: time.Now(), Limits: limits}
			if err := in.AddMetrics(files); err != nil {
				t.Fatal(err)
			}
			belongs(t, diagnose.Diagnose(in), p.want...)
			// One sample proves nothing, however long it has counted.
			in = &diagnose.Input{At: time.Now(), Limits: limits}
			if err := in.AddMetrics(files[c.Len():]); err != nil {
				t.Fatal(err)
			}
			belongs(t, diagnose.Diagnose(in))
			if len(in.Missing) != c.Len() {
				t.Errorf("missing: %+v", in.Missing)
			}
			if i == 0 {
				shows(t, r, "KVD-DISK-001")
			}
		})
	}
}

// keepAllMetrics writes each member's metrics to a file.
func keepAllMetrics(t *testing.T, c *servertest.Cluster, when string) []string {
	t.Helper()
	dir := t.TempDir()
	var out []string
	for i := range c.Len() {
		path := filepath.Join(dir, fmt.Sprintf("%s-%s.txt", c.Name(i), when))
		keepMetrics(t, c, i, path)
		out = append(out, path)
	}
	return out
}

// Case C79 (b): requests are slow, and the disk is not why.
func TestCaseExpensiveRequests(t *testing.T) {
	list := func(int) []clientv3.OpOption { return []clientv3.OpOption{clientv3.WithPrefix()} }
	page := func(keys int) []clientv3.OpOption {
		return []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(int64(keys / 2))}
	}
	one := func(int) []clientv3.OpOption { return nil }
	for _, p := range []struct {
		name  string
		shape shape
		key   string
		opts  func(keys int) []clientv3.OpOption
		want  []string
	}{
		{"whole lists", shape{}, "/registry/", list, []string{"KVD-READ-001 warning"}},
		{"pages, of which each counts all there is, etcd 3.6", shape{version: "3.6"}, "/registry/", page, []string{"KVD-READ-001 warning"}},
		{"one key that is not there", shape{}, "/registry/pods/none", one, nil},
	} {
		t.Run(p.name, func(t *testing.T) { // one after the other: how fast the machine is matters here
			p.shape.fsync, p.shape.dir = true, memory(t)
			c := p.shape.start(t)
			client := c.Client(t)
			keys := 60_000
			load(t, client, keys, 700)
			for p.want != nil && took(t, client, p.key, p.opts(keys)) < 250*time.Millisecond && keys < 480_000 { // etcd calls 100 ms slow
				keys *= 2
				load(t, client, keys, 700)
			}
			opts := p.opts(keys)
			end := every(t, 300*time.Millisecond, func(ctx context.Context) { _, _ = client.Get(ctx, p.key, opts...) })
			r := look(t, connect(t, c), func(o *diagnose.CollectOptions) {
				o.Interval = 20 * time.Second
				o.Limits.FsyncP99, o.Limits.SlowApplies = diagnose.DefaultLimits().FsyncP99, 0.1 // fewer than usual: one client alone asks
			})
			end()
			if r.Has("KVD-READ-001") {
				f := finding(t, r, "KVD-READ-001")
				if len(f.ExplainedBy) > 0 || f.Subject != c.Name(0) {
					t.Errorf("%+v", f)
				}
			}
			belongs(t, r, p.want...)
		})
	}
}

// took is how long a read takes at best.
func took(t *testing.T, c *clientv3.Client, key string, opts []clientv3.OpOption) time.Duration {
	t.Helper()
	best := time.Hour
	for range 3 {
		start := time.Now()
		if _, err := c.Get(servertest.Context(t, time.Minute), key, opts...); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	return best
}
