package ops_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

func (p *place) leases(t *testing.T, change func(*ops.LeaseOptions)) (ops.LeaseList, error) {
	t.Helper()
	o := ops.DefaultLeaseOptions()
	change(&o)
	return ops.ListLeases(servertest.Context(t, time.Minute), p.KVD, p.view(t), o, progress.Discard)
}

func (p *place) grant(t *testing.T, ttl int64, keys ...string) clientv3.LeaseID {
	t.Helper()
	ctx := servertest.Context(t, 20*time.Second)
	l, err := p.Client.Grant(ctx, ttl)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if _, err := p.Client.Put(ctx, k, "v", clientv3.WithLease(l.ID)); err != nil {
			t.Fatal(err)
		}
	}
	return l.ID
}

// Times, keys that are not text, and what can be told of leases once the leader
// is lost.
func TestLeasesAndTheLossOfTheLeader(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	p.KVD = p.patient(t)
	ttls := []int64{300, 40, 7200}
	var ids []clientv3.LeaseID
	for i, ttl := range ttls {
		ids = append(ids, p.grant(t, ttl, fmt.Sprintf("\xff\x00%d", i), fmt.Sprintf("/registry/events/ns/e%d", i)))
	}
	p.put(t, 4, 4, 10)

	l, err := p.leases(t, func(o *ops.LeaseOptions) { o.Keys, o.Rate = true, math.MaxInt })
	if err != nil {
		t.Fatal(err)
	}
	if l.Total != 3 || l.Requests != 5 || *l.KeysHeld != 6 || *l.KeysTotal != 10 || *l.Share != 0.6 {
		t.Errorf("total %d, requests %d, keys %d of %d, share %v; want 3, 5, 6 of 10, 0.6", l.Total, l.Requests, *l.KeysHeld, *l.KeysTotal, *l.Share)
	}
	for i, want := range []int64{40, 300, 7200} {
		if g := *l.Leases[i].Granted; g != want || *l.Leases[i].TTL > want || *l.Leases[i].TTL < want-35 {
			t.Errorf("lease %d: granted %d with %d left, want %d, the shortest first", i, g, *l.Leases[i].TTL, want)
		}
	}
	one, err := ops.ShowLease(t.Context(), p.KVD, p.view(t), uint64(ids[0]))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(one)
	if !strings.Contains(string(raw), `"key_base64":"/wAw"`) || !strings.Contains(string(raw), `"key":"/registry/events/ns/e0"`) {
		t.Errorf("keys in JSON: %s", raw)
	}

	if _, err := ops.ShowLease(t.Context(), p.KVD, p.view(t), 0xabcdef); fault.CauseOf(err) != cluster.CauseLeaseNotFound {
		t.Errorf("a lease that does not exist: %v", err)
	}

	// One of three left: the IDs can be listed, and no request for times is sent.
	p.Kill(0)
	p.Kill(1)
	waitFor(t, "the last member to know of no leader", func() bool { return p.view(t).Leader == 0 })
	l, err = p.leases(t, func(*ops.LeaseOptions) {})
	if err != nil || l.Total != 3 || l.LeaderID != "" {
		t.Errorf("without a leader: %d leases, leader %q, %v", l.Total, l.LeaderID, err)
	}
	l, err = p.leases(t, func(o *ops.LeaseOptions) { o.TTL = true })
	if fault.CauseOf(err) != cluster.CauseNoLeader || l.Total != 3 || len(l.Leases) != 3 || l.Requests != 1 {
		t.Errorf("times without a leader: total %d, %d listed, %d requests, %v", l.Total, len(l.Leases), l.Requests, err)
	}
}

// Who may not list leases is told so, and not that there are none.
func TestLeasesDenied(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{})
	admin := s.Client(t)
	grant, err := admin.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Put(t.Context(), "/b/x", "v", clientv3.WithLease(grant.ID)); err != nil {
		t.Fatal(err)
	}
	s.EnableAuth(t, servertest.User{Name: "alice", Password: "pw", Prefix: "/a/"})
	client, err := cluster.Connect(cluster.Config{Endpoints: s.Endpoints(), User: "alice", Password: "pw"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	view, err := client.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, err := ops.ListLeases(t.Context(), client, view, ops.DefaultLeaseOptions(), progress.Discard)
	if fault.KindOf(err) != fault.Denied || l.Requests != 0 { // without an answered request nothing is shown
		t.Errorf("%+v, %v", l, err)
	}
}

// waitFor waits for a state, half a minute at most.
func waitFor(t *testing.T, what string, there func() bool) {
	t.Helper()
	ctx := servertest.Context(t, 30*time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

func TestParseLeaseID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in          string
		id, another uint64
		bad         bool
	}{
		{in: "694d8257011f1b4d", id: 0x694d8257011f1b4d},
		{in: "0x1f", id: 0x1f},
		{in: "1234", id: 0x1234, another: 1234},
		{in: "7587862094494400293", id: 7587862094494400293}, // too long for hexadecimal
		{in: "-5", id: 0xfffffffffffffffb},
		{in: "0", bad: true}, {in: "", bad: true}, {in: "lease", bad: true}, {in: "99999999999999999999", bad: true},
	} {
		id, another, err := ops.ParseLeaseID(c.in)
		if id != c.id || another != c.another || (err != nil) != c.bad {
			t.Errorf("%q: %x, %d, %v", c.in, id, another, err)
		}
	}
}
