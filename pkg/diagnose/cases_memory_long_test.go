//go:build long

package diagnose_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/server/servertest"
)

// load writes keys with names of 60 bytes, a hundred in a transaction.
func load(t *testing.T, c *clientv3.Client, keys, size int) {
	t.Helper()
	g, ctx := errgroup.WithContext(servertest.Context(t, 3*time.Minute))
	for w := range 8 {
		g.Go(func() error {
			for i := w * 100; i < keys; i += 800 {
				var ops []clientv3.Op
				for j := i; j < min(i+100, keys); j++ {
					ops = append(ops, clientv3.OpPut(fmt.Sprintf("/registry/pods/a-namespace-of-somebody/a-deployment-%014d", j), strings.Repeat("v", size)))
				}
				if _, err := c.Txn(ctx).Then(ops...).Commit(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func metric(t *testing.T, c *servertest.Cluster, name string) float64 {
	t.Helper()
	s, err := metrics.Fetch(t.Context(), http.DefaultClient, c.Endpoint(0))
	if err != nil {
		t.Fatal(err)
	}
	v, ok := s.Value(name, nil)
	if !ok {
		t.Fatalf("no metric %s", name)
	}
	return v
}

// The estimate of the index is what a server that was just started holds of it, to
// within a third: after a start there is little else on its heap.
func TestIndexEstimate(t *testing.T) {
	for _, x := range []struct{ keys, rounds int }{{200000, 1}, {5000, 40}} {
		t.Run(fmt.Sprintf("%d keys, %d revisions of each", x.keys, x.rounds), func(t *testing.T) {
			c := begin(t, 1, 0, "--snapshot-count=100", "--snapshot-catchup-entries=10") // else the log's entries are on the heap as well
			heap := func() float64 { return metric(t, c, "go_memstats_heap_alloc_bytes") }
			again := func() float64 {
				stop(t, c, 0)
				if err := c.StartMember(servertest.Context(t, time.Minute), 0); err != nil {
					t.Fatal(err)
				}
				least := heap()
				for range 40 { // a collection falls into that, and shows what lives
					pauseFor(250 * time.Millisecond)
					least = min(least, heap())
				}
				return least
			}
			empty := again()
			if x.rounds == 1 {
				load(t, c.Client(t), x.keys, 20)
			} else {
				put(t, c.Client(t), "/registry/pods/a-namespace-of-somebody/a-deployment-0000000000", x.keys*x.rounds, x.keys, 20)
			}
			full := again()
			r := look(t, connect(t, c), func(o *diagnose.CollectOptions) { o.Limits.MemoryFrom, o.Limits.MemoryRatio = 0, 0 })
			est := evidence(t, finding(t, r, "KVD-MEM-003"), "index of the keys, about").Value
			t.Logf("heap %.1f MB with nothing stored, %.1f MB with it: %.1f MB more; estimated %.1f MB", empty/1e6, full/1e6, (full-empty)/1e6, est/1e6)
			if held := full - empty; est < held*2/3 || est > held*4/3 {
				t.Errorf("estimated %.0f, held %.0f", est, held)
			}
		})
	}
}

// Full lists of a small store, by many at once: the member has many times what it
// stores in memory. One that nobody lists has not.
func TestCaseMemoryOfLists(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client := c.Client(t)
	load(t, client, 4000, 5000)
	small := func(o *diagnose.CollectOptions) { // what is small enough for a machine of tests
		o.Limits.MemoryFrom, o.Limits.MemoryGrowth, o.Limits.ReadRate = 200<<20, 8<<30, 1e9
		o.Limits.SlowApplies = 1e9
	}
	quiet := look(t, connect(t, c), small)
	belongs(t, quiet)
	ctx, leave := context.WithCancel(t.Context())
	g, gctx := errgroup.WithContext(ctx)
	for range 24 {
		g.Go(func() error {
			for gctx.Err() == nil {
				_, _ = client.Get(gctx, "/registry/", clientv3.WithPrefix(), clientv3.WithSerializable())
			}
			return nil
		})
	}
	pauseFor(5 * time.Second)
	r := look(t, connect(t, c), small)
	leave()
	_ = g.Wait()
	belongs(t, r, "KVD-MEM-003 warning")
	if f := finding(t, r, "KVD-MEM-003"); evidence(t, f, "heap in use").Value < evidence(t, f, "file").Value {
		t.Errorf("%+v", f.Evidence)
	}
	stop(t, c, 0) // Go gives memory back over minutes only
	if err := c.StartMember(servertest.Context(t, time.Minute), 0); err != nil {
		t.Fatal(err)
	}
	good := look(t, connect(t, c), small)
	belongs(t, good)
	remedied(t, "KVD-MEM-003", r, good, "page the lists; a restart gives the memory back at once")
}

// A member in a control group whose memory a quarter of would not hold its database:
// named with the group's limit. The same member without that limit is not.
func TestCaseControlGroup(t *testing.T) {
	group := memoryGroup(t)
	c := begin(t, 1, 0)
	load(t, c.Client(t), 30000, 5000)
	settleDisk(t)
	quarter := func(o *diagnose.CollectOptions) { o.Limits.MemoryRoom = 0.25 } // in a group with less than the file the kernel might end it
	belongs(t, look(t, connect(t, c), quarter))
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(group, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("cgroup.procs", strconv.Itoa(c.PID(0)))
	write("memory.limit_in_bytes", strconv.Itoa(512<<20))
	r := look(t, connect(t, c), quarter)
	write("memory.limit_in_bytes", "-1")
	belongs(t, r, "KVD-MEM-002 warning")
	f := finding(t, r, "KVD-MEM-002")
	if evidence(t, f, "limit of its control group").Value != 512<<20 || evidence(t, f, "database").Value < 130<<20 {
		t.Errorf("%+v", f.Evidence)
	}
	good := look(t, connect(t, c), quarter)
	belongs(t, good)
	remedied(t, "KVD-MEM-002", r, good, "raise the limit of the control group")
}

// memoryGroup makes a control group below that of the test, of version 1.
func memoryGroup(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip("no control groups here")
	}
	for line := range strings.Lines(string(raw)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 || part[1] != "memory" {
			continue
		}
		for _, below := range []string{part[2], ""} {
			dir := filepath.Join("/sys/fs/cgroup/memory", below, fmt.Sprintf("kvd-test-%d", os.Getpid()))
			if err := os.Mkdir(dir, 0o755); err == nil {
				t.Cleanup(func() { _ = os.Remove(dir) })
				return dir
			}
		}
	}
	t.Skip("no control group of memory can be made here")
	return ""
}
