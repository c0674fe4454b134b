//go:build long

package diagnose_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// leased grants a lease and hangs keys on it, a hundred in a transaction.
func leased(t *testing.T, client *clientv3.Client, keys int) clientv3.LeaseID {
	t.Helper()
	ctx := servertest.Context(t, 3*time.Minute)
	l, err := client.Grant(ctx, 3600)
	if err != nil {
		t.Fatal(err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for w := range 16 {
		g.Go(func() error {
			for i := w * 100; i < keys; i += 16 * 100 {
				var ops []clientv3.Op
				for j := i; j < min(i+100, keys); j++ {
					ops = append(ops, clientv3.OpPut(fmt.Sprintf("/leased/%x/%d", l.ID, j), strings.Repeat("v", 100), clientv3.WithLease(l.ID)))
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
	return l.ID
}

// Case C83: one lease with 100,000 keys, and with fewer. Those that have few are not
// named.
func TestCaseKeysOnOneLease(t *testing.T) {
	t.Parallel()
	for i, p := range []struct {
		name  string
		shape shape
		few   []int // keys of leases that are as they should be
		many  []int
	}{
		{"100,000", shape{}, []int{1000, 9000}, []int{100000}},
		{"two, three members with certificates and users", shape{members: 3, mtls: true, auth: true}, []int{500}, []int{12000, 15000}},
		{"one among many, etcd 3.6", shape{version: "3.6"}, []int{10, 10, 10, 10, 10, 10, 10, 10}, []int{20000}},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			client := c.Client(t)
			for _, keys := range p.few {
				leased(t, client, keys)
			}
			belongs(t, look(t, connect(t, c)))
			counts, want := map[string]int{}, []string{}
			var ids []clientv3.LeaseID
			for _, keys := range p.many {
				id := leased(t, client, keys)
				ids, want = append(ids, id), append(want, "KVD-LEASE-001 warning")
				counts[fmt.Sprintf("lease %x", id)] = keys
			}
			r := look(t, connect(t, c))
			belongs(t, r, want...)
			for _, f := range r.Findings {
				if evidence(t, f, "keys").Value != float64(counts[f.Subject]) {
					t.Errorf("%s: %+v", f.Subject, f.Evidence)
				}
			}
			for _, id := range ids {
				if _, err := client.Revoke(servertest.Context(t, time.Minute), id); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) { // of a second try, after one that took long
					t.Fatal(err)
				}
			}
			good := look(t, connect(t, c))
			belongs(t, good)
			if i == 0 {
				remedied(t, "KVD-LEASE-001", r, good, "kvd lease revoke ID, and fewer keys on each from then on")
			}
		})
	}
}

// Case C85: leases that nobody renews outlive their time while leaders change. Where
// a client renews them, or nobody moves, they do not.
func TestCaseLeasesAndElections(t *testing.T) {
	t.Parallel()
	for i, p := range []struct {
		name    string
		shape   shape
		renewed bool
		still   bool // the leader stays
		want    []string
	}{
		{"three", shape{members: 3}, false, false, []string{"KVD-LEASE-002 warning", "KVD-RAFT-003 warning"}},
		{"five with certificates and users", shape{members: 5, mtls: true, auth: true}, false, false, []string{"KVD-LEASE-002 warning", "KVD-RAFT-003 warning"}},
		{"three of etcd 3.6", shape{members: 3, version: "3.6"}, false, false, []string{"KVD-LEASE-002 warning", "KVD-RAFT-003 warning"}},
		{"three, renewed by its client", shape{members: 3}, true, false, []string{"KVD-RAFT-003 warning"}},
		{"three, and the leader stays", shape{members: 3}, false, true, nil},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			client := c.Client(t)
			l, err := client.Grant(servertest.Context(t, time.Minute), 30)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Put(servertest.Context(t, time.Minute), "held", "x", clientv3.WithLease(l.ID)); err != nil {
				t.Fatal(err)
			}
			if p.renewed {
				every(t, time.Second, func(ctx context.Context) { _, _ = client.KeepAliveOnce(ctx, l.ID) })
			}
			stopMoving := func() {}
			if !p.still {
				stopMoving = every(t, 5*time.Second, func(ctx context.Context) { move(ctx, t, c) })
			}
			r := look(t, connect(t, c), func(o *diagnose.CollectOptions) { o.Interval = 8 * time.Second })
			stopMoving()
			belongs(t, r, p.want...)
			if !r.Has("KVD-LEASE-002") {
				return
			}
			f := finding(t, r, "KVD-LEASE-002")
			if len(f.ExplainedBy) != 1 || f.ExplainedBy[0] != "KVD-RAFT-003" || strings.Contains(f.Summary, "clock") {
				t.Errorf("%+v", f)
			}
			good := look(t, connect(t, c), func(o *diagnose.CollectOptions) { o.Interval = 3 * time.Second })
			belongs(t, good)
			if i == 0 {
				remedied(t, "KVD-LEASE-002", r, good, "end the elections")
				remedied(t, "KVD-RAFT-003", r, good, "end the elections")
			}
		})
	}
}

// move hands the leadership to the next member.
func move(ctx context.Context, t *testing.T, c *servertest.Cluster) {
	t.Helper()
	for i := range c.Len() {
		s, err := c.Client(t).Status(ctx, c.Endpoint(i))
		if err != nil || s.Leader != s.Header.MemberId {
			continue
		}
		to, err := c.Client(t).Status(ctx, c.Endpoint((i+1)%c.Len()))
		if err == nil {
			_, err = c.Client(t, c.Endpoint(i)).MoveLeader(ctx, to.Header.MemberId)
		}
		if err != nil && ctx.Err() == nil {
			t.Logf("move: %v", err)
		}
		return
	}
}
