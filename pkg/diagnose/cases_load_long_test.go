//go:build long

package diagnose_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// memory is a folder in memory, where flushes take no time.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "kvd-test-")
	if err != nil {
		t.Skipf("no folder in memory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Clean(dir)
}

// writeSteadily renews the Leases of 200 nodes every 10 s, and a few objects more.
func writeSteadily(ctx context.Context, c *clientv3.Client) {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	value := strings.Repeat("v", 300)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		key := fmt.Sprintf("/registry/leases/kube-node-lease/n%d", n%200)
		if n%2 == 1 {
			key = fmt.Sprintf("/registry/pods/default/p%d", n%700)
		}
		_, _ = c.Put(ctx, key, value) // one that fails is not the test's business
	}
}

// The heartbeats of 100 nodes every second, as whole Nodes and as Leases.
func TestCaseHistoryOfWrites(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 512<<20)
	client := c.Client(t)
	put(t, client, "/registry/pods/a/p", 500, 500, 4000)
	put(t, client, "/registry/minions/n", 100, 100, 16240)
	write := func(prefix string, size int) func() {
		ctx, stop := context.WithCancel(t.Context())
		var g errgroup.Group
		value := strings.Repeat("v", size)
		g.Go(func() error {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = client.Put(ctx, fmt.Sprintf("%sn%d", prefix, n%100), value) // the last one ends with ctx
				<-tick.C
			}
			return nil
		})
		return func() { stop(); _ = g.Wait() }
	}
	longer := func(o *diagnose.CollectOptions) { o.Interval = 3 * time.Second }
	stopNodes := write("/registry/minions/", 16240)
	r := look(t, connect(t, c), longer)
	stopNodes()
	belongs(t, r, "KVD-CHURN-002 warning")
	f := finding(t, r, "KVD-CHURN-002")
	if f.Subject != "nodes" || evidence(t, f, "keys and values put each second").Value > 101*16300 {
		t.Errorf("%+v", f)
	}
	mentions(t, f.Summary, "of nodes, 16 KiB each")
	stopLeases := write("/registry/leases/kube-node-lease/", 570)
	good := look(t, connect(t, c), longer)
	stopLeases()
	belongs(t, good)
	remedied(t, "KVD-CHURN-002", r, good, "kubelets that renew Leases")
}

// A healthy cluster of three under what 200 nodes ask of it: 20 looks, and nothing
// above info.
func TestHealthyUnderLoad(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Dir: memory(t)}})
	load := exec.CommandContext(t.Context(), servertest.Binary(t), "loadgen", "k8s-cluster", "--nodes", "200", "--duration", "0", "--endpoints", strings.Join(c.Endpoints(), ","))
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = load.Process.Signal(os.Interrupt); _ = load.Wait() }()
	client := connect(t, c)
	waitFor(t, func() bool {
		r, err := c.Client(t).Get(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && r.Count > 200
	})
	for i := range 20 {
		o := diagnose.DefaultCollectOptions()
		r := look(t, client, func(p *diagnose.CollectOptions) { *p = o })
		for _, f := range r.Worst(diagnose.Warning) {
			t.Errorf("look %d: %s %s: %s %+v", i, f.ID, f.Subject, f.Summary, f.Evidence)
		}
	}
}

// What a look costs the servers of a cluster of 100,000 keys, beside the sampled read,
// and what a steady writer notices of it.
func TestCostOfALook(t *testing.T) {
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Dir: memory(t)}})
	g, ctx := errgroup.WithContext(t.Context())
	client := c.Client(t)
	for w := range 8 {
		g.Go(func() error {
			for i := w * 100; i < 100000; i += 800 {
				var ops []clientv3.Op
				for j := i; j < i+100; j++ {
					ops = append(ops, clientv3.OpPut(fmt.Sprintf("/registry/pods/default/p%d", j), strings.Repeat("v", 300)))
				}
				if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	settleDisk(t)
	kc := connect(t, c)
	cost := func(sample int64) float64 {
		before := cpu(t, c)
		look(t, kc, func(o *diagnose.CollectOptions) { o.SampleBytes = sample })
		return cpu(t, c) - before
	}
	idleFrom := cpu(t, c)
	pauseFor(time.Second)
	idle := cpu(t, c) - idleFrom
	bare, whole := cost(0)-idle, cost(16<<20)-idle
	t.Logf("CPU of the three servers for one look: %.2f s beside the sampled read, %.2f s with it (idle: %.2f s)", bare, whole, idle)
	if bare > 0.3 {
		t.Errorf("a look costs %.2f s of CPU beside the sampled read, want 0.3 at most", bare)
	}
	var with, without []time.Duration
	for i := range 20 {
		if i%2 == 0 {
			without = append(without, p99Of(t, client, func() { pauseFor(time.Second) }))
		} else {
			with = append(with, p99Of(t, client, func() { look(t, kc) }))
		}
	}
	t.Logf("p99 of a put every 5 ms, 10 windows each: without %v, with %v", without, with)
}

func pauseFor(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// cpu is what the servers have used, in seconds: fields 14 and 15 of proc(5)'s stat, in
// hundredths.
func cpu(t *testing.T, c *servertest.Cluster) float64 {
	t.Helper()
	ticks := 0.0
	for i := range c.Len() {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID(i)))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+2:]))
		for _, f := range fields[11:13] {
			n, err := strconv.ParseFloat(f, 64)
			if err != nil {
				t.Fatal(err)
			}
			ticks += n
		}
	}
	return ticks / 100
}

// p99Of is how long puts take, one every 5 ms, while something is done.
func p99Of(t *testing.T, c *clientv3.Client, do func()) time.Duration {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var took []time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			began := time.Now()
			if _, err := c.Put(ctx, fmt.Sprintf("/registry/leases/kube-node-lease/n%d", n%200), "v"); err == nil {
				took = append(took, time.Since(began))
			}
			<-tick.C
		}
	}()
	do()
	stop()
	<-done
	if len(took) == 0 {
		t.Fatal("not a put was answered")
	}
	slices.Sort(took)
	return took[len(took)*99/100].Round(100 * time.Microsecond)
}
