package k8s_test

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// stage is a cluster that loads are put on.
type stage struct {
	*servertest.Cluster
	client *cluster.Client
}

func newStage(t *testing.T, o local.Options) *stage {
	t.Helper()
	o.Args = append(o.Args, "--unsafe-no-fsync")
	s := &stage{Cluster: servertest.Start(t, servertest.Options{Options: o})}
	cfg := cluster.Config{Endpoints: s.Endpoints()}
	if o.TLS != nil {
		cfg.CACert, cfg.Cert, cfg.Key = o.TLS.CA, o.TLS.ClientCert, o.TLS.ClientKey
	}
	var err error
	if s.client, err = cluster.Connect(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

// options are those of a short run on a busy machine.
func (s *stage) options() loadgen.Options {
	o := loadgen.DefaultOptions()
	o.Warmup, o.Duration, o.Limits.Lag = 0, time.Second, time.Minute
	o.MetricsURLs = metrics.Overrides{}
	for i := range s.Len() {
		o.MetricsURLs[s.Name(i)] = s.MetricsURL(i)
	}
	return o
}

func (s *stage) play(t *testing.T, sc loadgen.Scenario, o loadgen.Options) *result.Run {
	t.Helper()
	r, err := loadgen.Run(t.Context(), s.client, sc, o, nil, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	declared(t, sc, r)
	return r
}

// declared fails for what was seen of a scenario and is not among its figures, since an
// objective on it would be refused; and for a counter that is, and is not there.
func declared(t *testing.T, sc loadgen.Scenario, r *result.Run) {
	t.Helper()
	names := sc.Figures()
	for counter := range r.Totals.Counters {
		if !slices.Contains(names.Counters, counter) {
			t.Errorf("%s counts %s, and an objective on it would be refused", sc.Name(), counter)
		}
	}
	for _, counter := range names.Counters {
		if _, there := r.Totals.Counters[counter]; !there {
			t.Errorf("%s has counted no %s, and an objective on it would not be known where it is 0", sc.Name(), counter)
		}
	}
	told := map[string]bool{}
	for _, row := range r.Rows { // of the warm-up too
		for _, l := range row.Ops {
			if !names.Has(l.Op) && !told[l.Name()] {
				told[l.Name()] = true
				t.Errorf("%s sends %s, and an objective on it would be refused", sc.Name(), l.Name())
			}
		}
	}
}

func (s *stage) revision(t *testing.T) int64 {
	t.Helper()
	resp, err := s.Client(t).Get(t.Context(), "x", clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func heartbeats(nodes int, period time.Duration) *k8s.Heartbeats {
	o := k8s.DefaultHeartbeatOptions()
	o.Nodes, o.Period, o.Images = nodes, period, 0
	return &k8s.Heartbeats{HeartbeatOptions: o}
}

// Each renewal is one revision; the same seed is the same schedule and, since
// nothing is left out, the same number of renewals; what an earlier run left is gone on
// from, without a conflict.
func TestHeartbeatsGoOnFromWhatThereIs(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{})
	first := s.play(t, heartbeats(50, 300*time.Millisecond), s.options())
	before := s.revision(t)
	second := s.play(t, heartbeats(50, 300*time.Millisecond), s.options())
	ok := func(r *result.Run) int64 { return r.Count(func(op result.Op) bool { return op.Outcome == result.OK }) }
	if n := s.revision(t) - before; n != ok(second) || n != second.Totals.Due {
		t.Errorf("%d revisions, %d renewals that are ok, %d turns due", n, ok(second), second.Totals.Due)
	}
	if first.Schedule != second.Schedule || first.Totals.Due != second.Totals.Due {
		t.Errorf("schedules %s and %s, turns due %d and %d", first.Schedule, second.Schedule, first.Totals.Due, second.Totals.Due)
	}
	if len(second.Totals.Ops) != 1 || len(second.Totals.Causes) != 0 {
		t.Errorf("outcomes of the second run: %+v %+v", second.Totals.Ops, second.Totals.Causes)
	}
	resp, err := s.Client(t).Get(t.Context(), "/kvd-loadgen/registry/leases/kube-node-lease/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || resp.Count != 50 {
		t.Errorf("%v leases, %v", resp, err)
	}
}

// Who writes in between makes a conflict, after which the kubelet reads its Lease
// and renews it.
func TestHeartbeatsAfterAConflict(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{})
	s.play(t, heartbeats(1, 100*time.Millisecond), s.options())
	key := "/kvd-loadgen/registry/leases/kube-node-lease/"
	cli := s.Client(t)
	there, err := cli.Get(t.Context(), key, clientv3.WithPrefix())
	if err != nil || len(there.Kvs) != 1 {
		t.Fatal(there, err)
	}
	beats := cli.Watch(t.Context(), string(there.Kvs[0].Key), clientv3.WithCreatedNotify())
	<-beats // it watches
	go func() {
		<-beats // the second run has begun, however long that took
		_, _ = cli.Put(t.Context(), string(there.Kvs[0].Key), "somebody else")
	}()
	r := s.play(t, heartbeats(1, 100*time.Millisecond), s.options())
	var got []result.Op
	for _, l := range r.Totals.Ops {
		got = append(got, l.Op)
		if l.Outcome == result.Conflict && l.Response.Count() != 1 {
			t.Errorf("%d conflicts", l.Response.Count())
		}
	}
	want := []result.Op{{RPC: "range", Resource: "leases", Outcome: "ok"}, {RPC: "txn", Resource: "leases", Outcome: "conflict"}, {RPC: "txn", Resource: "leases", Outcome: "ok"}}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("requests %v, want %v", got, want)
	}
	if r.Totals.Counters["failed_heartbeats"] != 0 {
		t.Errorf("%v", r.Totals.Counters)
	}
}

// To whom the API servers connect, by policy; each has connections of its own.
func TestEndpointsPolicy(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{Members: 3})
	leader := s.Name(s.Leader(t))
	for policy, want := range map[loadgen.Policy]int{loadgen.Leader: 1, loadgen.Followers: 2, loadgen.Spread: 3} {
		o := s.options()
		o.Policy, o.Duration, o.Resources = policy, 300*time.Millisecond, 4
		r := s.play(t, heartbeats(30, 200*time.Millisecond), o)
		loaded := 0
		for _, m := range r.Members {
			if m.Loaded {
				loaded++
			}
			if m.Name == leader && m.Loaded != (policy != loadgen.Followers) {
				t.Errorf("%s: the leader is loaded: %v", policy, m.Loaded)
			}
		}
		if loaded != want || r.Connections != 12 {
			t.Errorf("%s: %d members are loaded, want %d, through %d connections, want 12", policy, loaded, want, r.Connections)
		}
	}
}

// Connections and metrics take certificates as every command does; metrics come
// from the client URL here.
func TestHeartbeatsWithCertificates(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{TLS: servertest.NewCerts(t).MutualTLS()})
	o := s.options()
	o.MetricsURLs = nil
	r := s.play(t, heartbeats(10, 200*time.Millisecond), o)
	if n := r.Count(func(op result.Op) bool { return op.Outcome == result.OK }); n != r.Totals.Due || n == 0 {
		t.Errorf("%d of %d renewals are ok: %+v", n, r.Totals.Due, r.Totals.Causes)
	}
	if len(r.Totals.Servers) != 1 || r.Totals.Servers[0].WALBytes == 0 {
		t.Errorf("the member's own figures: %+v", r.Totals.Servers)
	}
}

// The API servers agree on who compacts: each interval one of them does, to where
// the interval before was.
func TestCompactionOfTheAPIServers(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{})
	o := s.options()
	o.Duration = 2500 * time.Millisecond
	r := s.play(t, k8s.WithCompaction(heartbeats(20, 200*time.Millisecond), 500*time.Millisecond), o)
	compactions := r.Count(func(op result.Op) bool { return op.RPC == "compact" })
	lost := r.Count(func(op result.Op) bool { return op.Resource == "compactor" && op.Outcome == result.Conflict })
	if compactions < 2 || lost < 2 || len(r.Totals.Causes) > 0 {
		t.Errorf("%d compactions, %d rounds lost, %+v", compactions, lost, r.Totals.Causes)
	}
	_, err := s.Client(t).Get(t.Context(), "x", clientv3.WithRev(3))
	if err == nil {
		t.Error("nothing was compacted")
	}
	seen := false
	for _, e := range r.Events {
		seen = seen || e.What == "compaction"
	}
	if !seen {
		t.Errorf("no row tells of a compaction: %+v", r.Events)
	}
}

// What a load needs to find is not made where it does not fit: nothing is written,
// and the cluster stays what it was.
func TestNothingIsMadeThatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{QuotaBytes: 16 << 20})
	l := &k8s.List{ListOptions: k8s.DefaultListOptions()}
	l.Nodes = 0 // 5000 pods are 20 MiB
	before := s.revision(t)
	_, err := loadgen.Run(t.Context(), s.client, l, s.options(), nil, progress.Discard)
	if fault.CauseOf(err) != "quota_guard" || fault.KindOf(err) != fault.Refused {
		t.Errorf("%v, want a refusal for the quota's sake", err)
	}
	if now := s.revision(t); now != before {
		t.Errorf("%d writes all the same", now-before)
	}
	l.Objects = 100
	s.play(t, l, s.options())
}
