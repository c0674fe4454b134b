package diagnose_test

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/servertest"
)

// TestWhatWasAskedIsCounted: a member that does not tell its status is asked for its
// metrics all the same, where it is said that they are served elsewhere. What it
// took to find out has that request, too.
func TestWhatWasAskedIsCounted(t *testing.T) {
	t.Parallel()
	c := begin(t, 3, 0)
	c.Kill(2)
	o := options()
	o.Interval, o.MetricsURLs = 0, []string{c.Name(2) + "=" + c.MetricsURL(2)}
	in, err := diagnose.Collect(servertest.Context(t, time.Minute), connect(t, c), o, discard)
	if err != nil {
		t.Fatal(err)
	}
	if answered := len(in.Now.View.Answered()); answered != 2 {
		t.Fatalf("%d members answered, want 2", answered)
	}
	if want := (diagnose.Asked{What: "GET /metrics", Count: 3}); !slices.Contains(in.Asked, want) {
		t.Errorf("asked %+v, want %+v in it", in.Asked, want)
	}
}

// TestWhatWasRefusedIsCounted: a request that a member refuses was sent all the same.
func TestWhatWasRefusedIsCounted(t *testing.T) {
	t.Parallel()
	c := begin(t, 2, 0)
	ctx, etcd := servertest.Context(t, time.Minute), c.Client(t)
	lease, err := etcd.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Put(ctx, "/other", "v", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	c.EnableAuth(t, servertest.User{Name: "app", Password: "pw", Prefix: "/a/"})
	client, err := cluster.Connect(cluster.Config{Endpoints: c.Endpoints(), User: "app", Password: "pw"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() }) //nolint:errcheck // only read
	o := options()
	o.Interval, o.Hash = 0, true
	in, err := diagnose.Collect(ctx, client, o, discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Hashes) > 0 || in.Leases != nil || in.Auth != nil {
		t.Fatalf("nothing was refused: %d hashes, leases %+v, users %+v", len(in.Hashes), in.Leases, in.Auth)
	}
	for _, want := range []diagnose.Asked{
		{What: "HashKV", Count: 2},
		{What: "LeaseLeases, LeaseTimeToLive", Count: 2}, // the first try is made before the samples
		{What: "AuthStatus, UserList, UserGet, RoleGet (through the log)", Count: 2},
		{What: "serializable list of members", Count: 2},
	} {
		if !slices.Contains(in.Asked, want) {
			t.Errorf("asked %+v, want %+v in it", in.Asked, want)
		}
	}
}
