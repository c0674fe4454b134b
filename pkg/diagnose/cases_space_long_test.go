//go:build long

package diagnose_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Case C07: one member has a smaller quota, and caps all.
func TestCaseQuotasDiffer(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Args: []string{"--unsafe-no-fsync"},
		MemberArgs: func(i int) []string {
			return []string{fmt.Sprintf("--quota-backend-bytes=%d", []int{64 << 20, 64 << 20, 16 << 20}[i])}
		}}})
	fill(t, c.Client(t), "/registry/configmaps/a/", 2000, 32<<10)
	settle(t, c)
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-SPACE-001 critical", "KVD-SPACE-003 critical")
	f := finding(t, r, "KVD-SPACE-003")
	if f.Subject != "m3" || evidence(t, f, "quota of the others").Value != 64<<20 || evidence(t, f, "quota of m3").Value != 16<<20 {
		t.Errorf("%s: %+v", f.Subject, f.Evidence)
	}
	if err := c.Restart(servertest.Context(t, time.Minute), 2, "--quota-backend-bytes=67108864"); err != nil {
		t.Fatal(err)
	}
	kvd(t, "alarm", "disarm", "--yes", "--endpoints", c.Endpoint(0))
	good := look(t, connect(t, c))
	belongs(t, good)
	remedied(t, "KVD-SPACE-003", r, good, "etcd --quota-backend-bytes=67108864 …, on m3", "kvd alarm disarm --yes")
}

// Cases C16 and C17: nobody compacts. What is not compacted as it was configured is
// no fault, and the estimate of what there is to gain holds.
func TestCaseNobodyCompacts(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client := c.Client(t)
	put(t, client, "/registry/pods/default/p", 900, 100, 200)
	belongs(t, look(t, connect(t, c))) // C16 (b): 900 of the 1000 that revision mode keeps

	put(t, client, "/registry/pods/default/p", 8100, 100, 200)
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-SPACE-005 info") // C16 (a)
	mentions(t, finding(t, r, "KVD-SPACE-005").Summary, "nothing was ever compacted")
	kvd(t, "compact", "--to", "head", "--physical", "--yes", "--endpoints", c.Endpoint(0))
	belongs(t, look(t, connect(t, c)))
}

// within fails the test unless a number is near what it should be.
func within(t *testing.T, what string, is, want, share float64) {
	t.Helper()
	if math.Abs(is-want) > share*want {
		t.Errorf("%s: %.0f, want %.0f ± %.0f %%", what, is, want, 100*share)
	}
}

// Case C75: three keys get all the writes; lease churn is told apart.
func TestCaseWhoWrites(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client := c.Client(t)
	put(t, client, "/app/still/", 9, 9, 100)
	put(t, client, "/app/busy/", 4000, 3, 100)
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-CHURN-001 warning")
	shows(t, r, "KVD-CHURN-001")
	f := finding(t, r, "KVD-CHURN-001")
	for i := range 3 {
		within(t, "writes", evidence(t, f, fmt.Sprintf("writes to /app/busy/%d", i)).Value, 4000.0/3, 0.01)
	}
	// A compacted window counts from where it can.
	if _, err := client.Compact(t.Context(), 2500); err != nil {
		t.Fatal(err)
	}
	f = finding(t, look(t, connect(t, c)), "KVD-CHURN-001")
	within(t, "writes", evidence(t, f, "writes to /app/busy/0").Value, (4010-2500)/3.0, 0.01)
	// Leases without keys: in the log, and nowhere else.
	g, ctx := errgroup.WithContext(t.Context())
	for range 16 {
		g.Go(func() error {
			for range 200 {
				l, err := client.Grant(ctx, 60)
				if err == nil {
					_, err = client.Revoke(ctx, l.ID)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	stop(t, c, 0)
	off := lookAt(t, c.DataDir(0))
	belongs(t, off, "KVD-CHURN-001 warning", "KVD-LEASE-004 warning")
	if n := evidence(t, finding(t, off, "KVD-LEASE-004"), "grants").Value; n != 3200 {
		t.Errorf("%.0f grants", n)
	}
	shows(t, off, "KVD-LEASE-004")
}

func TestCaseNoSpaceElsewhere(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		members int
		quota   int64
		keys    int
	}{{3, 8 << 20, 30}, {1, 24 << 20, 10}} {
		t.Run(fmt.Sprintf("%d members, quota %d", p.members, p.quota), func(t *testing.T) {
			t.Parallel()
			noSpace(t, p.members, p.quota, p.keys)
		})
	}
}

// Case C17: kube-apiserver's compactor stopped long ago; what a compaction and a
// defragmentation give back is as was said.
func TestCaseCompactorStopped(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	client := c.Client(t)
	put(t, client, "compact_rev_key", 5, 1, 3)
	// Its key has no number behind it.
	for i := range 5 {
		if _, err := client.Put(t.Context(), "compact_rev_key", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, client, "/registry/pods/default/p", 60000, 200, 500)
	settleDisk(t)
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-SPACE-005 warning")
	f := finding(t, r, "KVD-SPACE-005")
	mentions(t, f.Summary, "for each", "compact_rev_key was last written at revision 11")
	said := evidence(t, f, "given back by compaction and defragmentation").Value
	before := dbSize(t, c)
	kvd(t, "compact", "--to", "head", "--physical", "--yes", "--endpoints", c.Endpoint(0))
	kvd(t, "defrag", "--yes", "--endpoints", c.Endpoint(0))
	within(t, "given back", float64(before-dbSize(t, c)), said, 0.2)
	good := look(t, connect(t, c))
	belongs(t, good)
	remedied(t, "KVD-SPACE-005", r, good, "kvd compact --to head --physical --yes", "kvd defrag --yes")
}

func dbSize(t *testing.T, c *servertest.Cluster) int64 {
	t.Helper()
	settleDisk(t)
	s, err := c.Client(t).Status(t.Context(), c.Endpoint(0))
	if err != nil {
		t.Fatal(err)
	}
	return s.DbSize
}
