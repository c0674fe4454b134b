//go:build long

package k8s_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// mix is what a cluster of so many nodes asks of etcd in a second: the model that
// was made from Kubernetes' source, for three API servers, ten components that
// elect a leader, and a pod in 500 nodes' share that comes and goes.
func mix(nodes float64) map[string]float64 {
	const apiservers, components, kinds = 3, 10, 75
	pods := nodes / 500
	return map[string]float64{
		"txn leases":                  nodes/10.2 + components*0.5 + apiservers*0.1,
		"txn nodes":                   nodes / 300 * 1.1,
		"txn pods":                    pods * 8,
		"txn endpointslices":          pods * 1.25,
		"txn endpoints":               pods * 1.25,
		"txn replicasets+deployments": pods * 1.5,
		"txn masterleases":            apiservers * 0.1,
		"txn events":                  pods * 7.5,
		"reads":                       pods*6.5 + components*2*0.31 + apiservers*(2+0.3) + kinds*apiservers/96.0,
	}
}

// apart is what the recorded API server did that the model does not know of.
const apartWrites, apartReads = 3 * 0.1, 3 * 0.2 // the peers' leases; their reads, and endpointslices/default/kubernetes

// TestClusterMix has a whole cluster, faster than it is, send what the model says,
// each kind within 5 %, and the server's own counters say so too.
func TestClusterMix(t *testing.T) {
	for nodes, scale := range map[int]float64{100: 10, 1000: 2} { // 200 and 300 writes a second
		c := newStage(t, local.Options{Args: []string{"--metrics=extensive", "--watch-progress-notify-interval=5s"}})
		k := &k8s.Cluster{ClusterOptions: k8s.DefaultClusterOptions()}
		k.Nodes, k.PodsPerNode = nodes, 2
		ctx, cancel := context.WithCancel(servertest.Context(t, 5*time.Minute))
		samples := make(chan []*metrics.Sample, 1)
		go func() { samples <- sampleEvery(ctx, c.MetricsURL(0)) }()
		o := c.options()
		o.TimeScale, o.Warmup, o.Duration = scale, 10*time.Second, 60*time.Second
		run := c.play(t, k, o)
		cancel()
		compareMix(t, nodes, scale, run)
		compareServer(t, nodes, scale, run, <-samples)
		for _, m := range result.Mix(run) { // what the report says of it
			if m.Off || m.Sent < m.Model*0.95 || m.Sent > m.Model*1.05 {
				t.Errorf("%d nodes: the report says %.3f %s a second, want %.3f", nodes, m.Sent, m.Name, m.Model)
			}
		}
		if len(run.Totals.Limits) > 0 {
			t.Logf("%d nodes: this would be exit 9: %q", nodes, run.Totals.Limits)
		}
		again, other := c.scheduleOf(t, k, o), o
		other.Seed++
		if again != run.Schedule || c.scheduleOf(t, k, other) == again {
			t.Errorf("%d nodes: schedules %s and %s of one seed, and that of another", nodes, run.Schedule, again)
		}
		if s := run.Totals.Servers[0]; s.LeaderChanges != 0 {
			t.Errorf("%v leader changes", s.LeaderChanges)
		}
	}
}

// scheduleOf begins a load, and stops it in its first second.
func (s *stage) scheduleOf(t *testing.T, k *k8s.Cluster, o loadgen.Options) string {
	t.Helper()
	stop := make(chan struct{})
	var once sync.Once
	sink := progress.Func(func(e progress.Event) {
		if e.Phase == "warming up" {
			once.Do(func() { close(stop) })
		}
	})
	r, err := loadgen.Run(t.Context(), s.client, k, o, stop, sink)
	if err != nil {
		t.Fatal(err)
	}
	return r.Schedule
}

func compareMix(t *testing.T, nodes int, scale float64, run *result.Run) {
	t.Helper()
	got := map[string]float64{}
	for _, op := range run.Totals.Ops {
		if !op.Done() {
			continue
		}
		rate := float64(op.Response.Count()) / run.Totals.Measured / scale
		switch {
		case op.RPC == "txn" && (op.Resource == "replicasets" || op.Resource == "deployments"):
			got["txn replicasets+deployments"] += rate
		case op.RPC == "txn":
			got[op.Name()] += rate
		case op.RPC == "range" || op.RPC == "range_stream" && op.Resource == "masterleases":
			got["reads"] += rate
		}
	}
	want := mix(float64(nodes))
	want["reads"] += apartReads
	want["txn peerserverleases"] = apartWrites
	for what, w := range want {
		if g := got[what]; g < w*0.95 || g > w*1.05 {
			t.Errorf("%d nodes: %.3f %s a second, want %.3f", nodes, g, what, w)
		}
	}
}

// sampleEvery reads a member's metrics every half second until ctx ends.
func sampleEvery(ctx context.Context, address string) []*metrics.Sample {
	var all []*metrics.Sample
	for ctx.Err() == nil {
		if s, err := metrics.Fetch(ctx, http.DefaultClient, address); err == nil {
			all = append(all, s)
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return all
}

// compareServer holds what the server counted in the middle of the measurement
// against the model.
func compareServer(t *testing.T, nodes int, scale float64, run *result.Run, samples []*metrics.Sample) {
	t.Helper()
	begin := run.StartedAt.Add(time.Duration((run.Warmup + 1) * float64(time.Second)))
	end := run.StartedAt.Add(time.Duration((run.Warmup + run.Totals.Measured - 1) * float64(time.Second)))
	samples = slices.DeleteFunc(samples, func(s *metrics.Sample) bool { return s.At.Before(begin) || s.At.After(end) })
	if len(samples) < 10 {
		t.Fatalf("%d samples", len(samples))
	}
	d := metrics.Between(samples[0], samples[len(samples)-1])
	rate := func(method string) float64 {
		r, ok := d.Rate("grpc_server_handled_total", metrics.Labels{"grpc_method": method, "grpc_code": "OK"})
		if !ok {
			t.Fatalf("the server has no count of %s", method)
		}
		return r / scale
	}
	model := mix(float64(nodes))
	reads := model["reads"]
	delete(model, "reads")
	writes := 0.0
	for _, w := range model {
		writes += w
	}
	grants := 3 * 0.1 * 2
	for what, row := range map[string]struct{ got, want float64 }{
		"writes": {rate("Txn"), writes + apartWrites},
		"reads":  {rate("Range") + 3*0.1, reads + apartReads}, // the model counts the list of master leases, a stream, with the reads
	} {
		t.Logf("%d nodes: the server answered %.2f %s a second, the model has %.2f", nodes, row.got, what, row.want)
		if row.got < row.want*0.95 || row.got > row.want*1.05 {
			t.Errorf("%d nodes: the server answered %.2f %s a second, want %.2f", nodes, row.got, what, row.want)
		}
	}
	if g := rate("LeaseGrant"); g < grants*0.95 {
		t.Errorf("%.2f leases granted a second, want %.2f at least", g, grants)
	}
	if watchers, _ := samples[0].Value("etcd_debugging_mvcc_watcher_total", nil); watchers != 3*75 {
		t.Errorf("%v watchers", watchers)
	}
	t.Logf("%d nodes: %.1f kB/s put", nodes, run.Totals.Servers[0].PutBytes/run.Totals.Measured/scale/1e3)
}
