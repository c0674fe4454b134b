package diagnose_test

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/servertest"
)

// renew writes a node's Lease as kubelet renews it.
func renew(t *testing.T, c *clientv3.Client, at time.Time) int64 {
	t.Helper()
	return renewAs(t, c, "kube-node-lease", "node-1", at)
}

func renewAs(t *testing.T, c *clientv3.Client, namespace, name string, at time.Time) int64 {
	t.Helper()
	r, err := c.Put(t.Context(), "/registry/leases/"+namespace+"/"+name, leaseOf(namespace, name, at))
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func leaseOf(namespace, name string, at time.Time) string {
	return fmt.Sprintf(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":%q,"namespace":%q},"spec":{"holderIdentity":%q,"leaseDurationSeconds":40,"renewTime":%q}}`,
		name, namespace, name, at.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

// compacts does what kube-apiserver does every 5 minutes: the marker, then the
// compaction to a revision of before.
func compacts(t *testing.T, c *clientv3.Client, rev int64) {
	t.Helper()
	if _, err := c.Put(t.Context(), "compact_rev_key", fmt.Sprint(rev)); err != nil {
		t.Fatal(err)
	}
	if rev > 0 {
		if _, err := c.Compact(t.Context(), rev); err != nil {
			t.Fatal(err)
		}
	}
}

// The API server has not compacted for an hour while nodes renewed their Leases, which
// tell the time; it begins again. That etcd compacts instead is another thing.
func TestCaseCompactorSilent(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client, now := c.Client(t), time.Now()
	renew(t, client, now.Add(-2*time.Hour))
	belongs(t, look(t, connect(t, c)))
	compacts(t, client, 0)
	renew(t, client, now.Add(-65*time.Minute))
	put(t, client, "/registry/pods/default/p", 50, 50, 100)
	latest := renew(t, client, now)
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-SPACE-009 warning")
	f := finding(t, r, "KVD-SPACE-009")
	if age := evidence(t, f, "age of compact_rev_key").Value; age < 7100 || age > 7300 { // the Lease's last word before the marker
		t.Errorf("age %.0f s", age)
	}
	if _, err := client.Compact(t.Context(), latest-1); err != nil { // by somebody else
		t.Fatal(err)
	}
	renew(t, client, now.Add(10*time.Second))
	others := look(t, connect(t, c))
	if !others.Has("KVD-SPACE-009") { // history reaches back an hour still: its oldest state of the Lease
		t.Errorf("%q", got(others))
	}
	head := renew(t, client, now.Add(20*time.Second))
	if _, err := client.Compact(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	renew(t, client, now.Add(30*time.Second))
	belongs(t, look(t, connect(t, c)))
	compacts(t, client, head+1)
	renew(t, client, now.Add(40*time.Second))
	good := look(t, connect(t, c))
	belongs(t, good)
	remedied(t, "KVD-SPACE-009", r, good, "see why kube-apiserver does not (its log, its flags, its permissions)")
}

// No API server has ever compacted, an hour after the first Lease.
func TestCaseCompactorNever(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client, now := c.Client(t), time.Now()
	renew(t, client, now.Add(-time.Hour))
	renew(t, client, now.Add(-50*time.Minute))
	r := look(t, connect(t, c))
	belongs(t, r) // ten minutes
	renew(t, client, now)
	r = look(t, connect(t, c))
	belongs(t, r, "KVD-SPACE-009 warning")
	mentions(t, finding(t, r, "KVD-SPACE-009").Summary, "there is no compact_rev_key", "for 1h")
}

// The API server's user has /registry/ and not the key beside it: named as soon as
// users are set up, and in earnest once they are asked for.
func TestCaseMayNotCompact(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client, ctx := c.Client(t), servertest.Context(t, time.Minute)
	put(t, client, "/registry/pods/default/p", 5, 5, 100)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(client.UserAdd(ctx, "root", "secret")) // its role is not made, as few make it: etcd does not need it
	must(client.UserGrantRole(ctx, "root", "root"))
	must(client.RoleAdd(ctx, "apiserver"))
	must(client.UserAdd(ctx, "kube", "secret"))
	must(client.UserGrantRole(ctx, "kube", "apiserver"))
	must(client.RoleGrantPermission(ctx, "apiserver", "/registry/", "/registry0", clientv3.PermissionType(clientv3.PermReadWrite)))
	belongs(t, look(t, connect(t, c)), "KVD-AUTH-001 info")
	must(client.AuthEnable(ctx))
	root, err := cluster.Connect(cluster.Config{Endpoints: c.Endpoints(), User: "root", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	r := look(t, root)
	belongs(t, r, "KVD-AUTH-001 warning")
	mentions(t, finding(t, r, "KVD-AUTH-001").Summary, "the user kube", "may not write compact_rev_key")
	kube, err := cluster.Connect(cluster.Config{Endpoints: c.Endpoints(), User: "kube", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kube.Close() })
	if denied := look(t, kube); denied.Has("KVD-AUTH-001") {
		t.Error("who may not read users judges them")
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Username: "root", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	must(etcd.RoleGrantPermission(ctx, "apiserver", "compact_rev_key", "", clientv3.PermissionType(clientv3.PermReadWrite)))
	good := look(t, root)
	belongs(t, good)
	remedied(t, "KVD-AUTH-001", r, good, "etcdctl role grant-permission apiserver readwrite compact_rev_key")
}

// Leases of what is long gone lie before those that are renewed, and the marker was
// written before the latter were made: it is as old as these at least.
func TestCaseCompactorBesideStaleLeases(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client, now := c.Client(t), time.Now()
	for i := range 60 {
		renewAs(t, client, "actions-old", fmt.Sprint("runner-", i), now.Add(-900*time.Hour))
	}
	compacts(t, client, 0)
	renew(t, client, now.Add(-2*time.Hour))
	put(t, client, "/registry/pods/default/p", 10, 10, 100)
	renew(t, client, now)
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-SPACE-009 warning")
	if age := evidence(t, finding(t, r, "KVD-SPACE-009"), "age of compact_rev_key").Value; age < 7100 || age > 7300 {
		t.Errorf("age %.0f s", age)
	}
	compacts(t, client, 0)
	renew(t, client, now.Add(10*time.Second))
	belongs(t, look(t, connect(t, c)))
}

// Two clusters of Kubernetes lie below prefixes that nobody has told, as in an etcd that
// Kamaji shares out: their users may not compact, and none of them does.
func TestCaseClustersBelowOtherPrefixes(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client, ctx, now := c.Client(t), servertest.Context(t, time.Minute), time.Now()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, root := range []string{"/tenants/a", "/b"} {
		must(client.Put(ctx, root+"/namespaces/kube-system", "x"))
		must(client.Put(ctx, root+"/leases/kube-system/kube-scheduler", leaseOf("kube-system", "kube-scheduler", now.Add(-time.Hour))))
		must(client.Put(ctx, root+"/leases/kube-system/kube-scheduler", leaseOf("kube-system", "kube-scheduler", now)))
		user := root[len(root)-1:]
		must(client.RoleAdd(ctx, user))
		must(client.UserAdd(ctx, user, "secret"))
		must(client.UserGrantRole(ctx, user, user))
		must(client.RoleGrantPermission(ctx, user, root+"/", root+"0", clientv3.PermissionType(clientv3.PermReadWrite)))
	}
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-AUTH-001 info", "KVD-SPACE-009 warning")
	mentions(t, finding(t, r, "KVD-AUTH-001").Summary, "2 users", "/tenants/a/")
}

// An API server writes into its marker the revision that etcd told it: one that is yet
// to come was there before a restore.
func TestCaseMarkerAhead(t *testing.T) {
	t.Parallel()
	c := shape{}.start(t)
	put(t, c.Client(t), "/registry/pods/a/p", 20, 20, 50)
	if _, err := c.Client(t).Put(t.Context(), "compact_rev_key", "21"); err != nil {
		t.Fatal(err)
	}
	belongs(t, look(t, connect(t, c)))
	if _, err := c.Client(t).Put(t.Context(), "compact_rev_key", "931"); err != nil {
		t.Fatal(err)
	}
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-OPS-007 warning")
	f := finding(t, r, "KVD-OPS-007")
	mentions(t, f.Summary, "931", "compact_rev_key", "restore without a bump")
	mentions(t, f.Remedy[0], "snapshot save")
}
