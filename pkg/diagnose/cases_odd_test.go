package diagnose_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/servertest"
)

// oddities leave what looks like loss in a log and a database: a lease that takes its
// key along, a range that is deleted, a transaction of which the other branch
// counted, and a compaction. All are as their clients wanted them.
func oddities(t *testing.T, c *servertest.Cluster) {
	t.Helper()
	client, ctx := c.Client(t), servertest.Context(t, time.Minute)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := client.Grant(ctx, 2)
	must(err)
	_, err = client.Put(ctx, "/a/1", "v", clientv3.WithLease(l.ID))
	must(err)
	for _, k := range []string{"/a/2", "/a/3", "/a/4"} {
		_, err = client.Put(ctx, k, "v")
		must(err)
	}
	_, err = client.Delete(ctx, "/a/2", clientv3.WithRange("/a/3"))
	must(err)
	r, err := client.Txn(ctx).If(clientv3.Compare(clientv3.Value("/a/3"), "=", "other")).Then(clientv3.OpDelete("/a/3")).Else(clientv3.OpDelete("/a/4")).Commit()
	must(err)
	waitFor(t, func() bool {
		got, err := client.Get(ctx, "/a/1")
		return err == nil && len(got.Kvs) == 0
	})
	_, err = client.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical())
	must(err)
}

// Case C59: who deleted a key is a question for the log; that keys were deleted is no
// fault, and neither are entries that came to nothing.
func TestCaseDeletedOnPurpose(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name  string
		shape shape
		who   role
		lost  bool // the last entries were not committed
		want  []string
		slow  bool
	}{
		{name: "one member"},
		{name: "a follower of three, with certificates and users", shape: shape{members: 3, mtls: true, auth: true}, who: follower, slow: true},
		{name: "a leader that lost its followers", shape: shape{members: 3}, who: leader, lost: true, slow: true},
		{name: "full, so that puts had no effect", shape: shape{quota: 2 << 20}, want: []string{"KVD-SPACE-001 critical"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := p.shape.start(t)
			oddities(t, c)
			if p.shape.quota > 0 {
				fill(t, c.Client(t), "/b/", 100, 64<<10)
			}
			who := pick(t, c, p.who)
			if p.lost {
				for i := range c.Len() {
					if i != who {
						c.Kill(i)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := c.Client(t, c.Endpoint(who)).Put(ctx, "/a/5", "never"); err == nil {
					t.Fatal("it was committed")
				}
			}
			settleDisk(t)
			stopAll(t, c)
			belongs(t, lookAt(t, c.DataDir(who)), p.want...)
		})
	}
}
