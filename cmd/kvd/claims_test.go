package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// What docs/how-etcd-works.md says against common belief is tried on a server,
// where it can be tried in a moment. `said` is in the page, so that neither can
// go without the other.

// costs is what claimRepeats calls of something do to the log and the store.
type costs struct{ entries, revisions bool }

const claimRepeats = 12

// costClaim is something that clients do, and a phrase of the page about it.
type costClaim struct {
	said string
	do   func() error
	want costs
}

func TestClaimsAboutCosts(t *testing.T) {
	t.Parallel()
	c, ctx := startForClaims(t, 64<<20), servertest.Context(t, time.Minute)
	etcd := c.Client(t)
	lease, err := etcd.Grant(ctx, 600)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(ctx, t, etcd, "k", "v")
	renew := func() error { _, err := etcd.KeepAliveOnce(ctx, lease.ID); return err }
	testCosts(ctx, t, c, []costClaim{
		{"a failed compare costs nothing", func() error {
			_, err := etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("k"), "=", 1)).Then(clientv3.OpPut("k", "w")).Commit()
			return err
		}, costs{entries: true}},
		{"linearizable reads go through the raft log", func() error { _, err := etcd.Get(ctx, "k"); return err }, costs{}},
		{"`alarm list` only reads", func() error { _, err := etcd.AlarmList(ctx); return err }, costs{entries: true}},
		{"keep-alives are writes", renew, costs{}},
		{"delete keys to get below the quota", func() error {
			mustPut(ctx, t, etcd, "gone", "v")
			_, err := etcd.Delete(ctx, "gone")
			return err
		}, costs{entries: true, revisions: true}},
		{"one that changes nothing makes none", func() error { _, err := etcd.Delete(ctx, "never"); return err }, costs{entries: true}},
	})

	c.EnableAuth(t, servertest.User{Name: "guest", Password: "guest-pw", Prefix: "guests/"})
	etcd = c.Client(t)
	guest, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Username: "guest", Password: "guest-pw", DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guest.Close() })
	testCosts(ctx, t, c, []costClaim{
		{"a request without permission costs nothing", func() error {
			if _, err := guest.Put(ctx, "k", "mine"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
				return fmt.Errorf("want permission denied, got %w", err)
			}
			return nil
		}, costs{entries: true}},
		{"to open a watch only reads", renew, costs{entries: true}}, // each renewal opens a stream, as a watch does
	})
}

func testCosts(ctx context.Context, t *testing.T, c *servertest.Cluster, claims []costClaim) {
	t.Helper()
	page := claimsPage(t)
	for _, claim := range claims {
		if !strings.Contains(page, claim.said) {
			t.Errorf("the page does not say %q", claim.said)
		}
		if got := measure(ctx, t, c.Client(t), c.Endpoints()[0], claim.do); got != claim.want {
			t.Errorf("%q: %+v, want %+v", claim.said, got, claim.want)
		}
	}
}

// measure does something a number of times and tells what it cost: entries of
// the log, and revisions. A server's own few entries do not count.
func measure(ctx context.Context, t *testing.T, etcd *clientv3.Client, endpoint string, do func() error) costs {
	t.Helper()
	status := func() *clientv3.StatusResponse {
		s, err := etcd.Status(ctx, endpoint)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := status()
	for range claimRepeats {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	after := status()
	return costs{
		entries:   after.RaftIndex-before.RaftIndex >= claimRepeats,
		revisions: after.Header.Revision-before.Header.Revision >= claimRepeats,
	}
}

func TestClaimsAboutCompactionAndLeases(t *testing.T) {
	t.Parallel()
	c := startForClaims(t, 64<<20)
	etcd, ctx := c.Client(t), servertest.Context(t, time.Minute)
	for range 10 {
		mustPut(ctx, t, etcd, "k", "v")
	}
	const to = 6 // the fifth of the ten: the store begins at revision 1
	if _, err := etcd.Compact(ctx, to); err != nil {
		t.Fatal(err)
	}
	for rev, want := range map[int64]error{to - 1: rpctypes.ErrCompacted, to: nil, to + 1: nil} {
		if _, err := etcd.Get(ctx, "k", clientv3.WithRev(rev)); !errors.Is(err, want) {
			t.Errorf("read at %d after compacting to %d: %v, want %v", rev, to, err, want)
		}
	}
	w := <-etcd.Watch(ctx, "k", clientv3.WithRev(to-1))
	if !w.Canceled || w.CompactRevision != to {
		t.Errorf("watch from %d: canceled %v, to go on from %d, want %d", to-1, w.Canceled, w.CompactRevision, to)
	}
	for asked, want := range map[int64]int64{1: 2, 2: 2, 7: 7} {
		if l, err := etcd.Grant(ctx, asked); err != nil || l.TTL != want {
			t.Errorf("a lease of %d s: %+v (%v), want %d s", asked, l, err, want)
		}
	}
}

// TestClaimRefusedAndStored: puts that reach the quota together are answered
// with "database space exceeded", and stored.
func TestClaimRefusedAndStored(t *testing.T) {
	t.Parallel()
	if said := "a write that got `database space exceeded` was not done"; !strings.Contains(claimsPage(t), said) {
		t.Errorf("the page does not say %q", said)
	}
	// It takes puts that are on their way when the alarm is raised, which on a busy machine
	// there may be none of.
	for range 5 {
		if refusedAndStored(t) > 0 {
			return
		}
	}
	t.Error("none of the refused puts was stored")
}

// refusedAndStored writes from several clients until each is refused, and counts the
// refused puts that are there all the same.
func refusedAndStored(t *testing.T) (stored int) {
	t.Helper()
	etcd, ctx := startForClaims(t, 16<<20).Client(t), servertest.Context(t, time.Minute)
	const writers = 16
	var refused [writers]string
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 0; refused[w] == ""; i++ {
				key := fmt.Sprintf("k/%d/%d", w, i)
				_, err := etcd.Put(ctx, key, strings.Repeat("v", 200<<10))
				if errors.Is(err, rpctypes.ErrNoSpace) {
					refused[w] = key
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, key := range refused {
		r, err := etcd.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		stored += len(r.Kvs)
	}
	t.Logf("of %d puts that were refused, %d are there", writers, stored)
	return stored
}

func claimsPage(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repoRoot, "docs", "how-etcd-works.md"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(raw)), " ")
}

func startForClaims(t *testing.T, quota int64) *servertest.Cluster {
	t.Helper()
	return servertest.Start(t, servertest.Options{Options: local.Options{
		Members: 1, QuotaBytes: quota, Command: local.Command{Path: servertest.Binary(t), Args: []string{"serve"}},
	}})
}

func mustPut(ctx context.Context, t *testing.T, etcd *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := etcd.Put(ctx, key, value); err != nil {
		t.Fatal(err)
	}
}
