//go:build long

package diagnose_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"kvd/pkg/diagnose"
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

// Case C16: a retention is set, and nothing is compacted: since a period begins anew
// with each start, or since it is not its time yet, which is as configured.
func TestCaseRetention(t *testing.T) {
	t.Parallel()
	periodic := []string{"--auto-compaction-mode=periodic", "--auto-compaction-retention=1h"}
	for _, p := range []struct {
		name     string
		shape    shape
		puts     int
		restarts int
		want     []string
	}{
		{"periodic, with restarts", shape{args: periodic}, 9000, 3, []string{"KVD-SPACE-005 info"}},
		{"periodic, three with certificates", shape{members: 3, mtls: true, args: periodic}, 6000, 0, []string{"KVD-SPACE-005 info"}},
		{"by revisions, and not so many yet", shape{args: []string{"--auto-compaction-mode=revision", "--auto-compaction-retention=1000"}}, 900, 0, nil},
		{"periodic, with a period that has passed", shape{args: []string{"--auto-compaction-mode=periodic", "--auto-compaction-retention=1s"}}, 6000, 0, nil},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			for i := range p.restarts + 1 {
				if i > 0 {
					if err := c.Restart(servertest.Context(t, time.Minute), 0); err != nil {
						t.Fatal(err)
					}
				}
				put(t, c.Client(t), "/registry/pods/default/p", p.puts/(p.restarts+1), 100, 200)
			}
			if len(p.want) == 0 {
				pauseFor(3 * time.Second) // a period of 1 s compacts to what there was a period ago
			}
			r := look(t, connect(t, c))
			belongs(t, r, p.want...)
			settleDisk(t)
			stopAll(t, c)
			off := lookAt(t, c.DataDir(0))
			belongs(t, off, p.want...)
			for _, r := range []diagnose.Report{r, off} {
				if len(p.want) > 0 {
					f := finding(t, r, "KVD-SPACE-005")
					mentions(t, f.Summary, "nothing was ever compacted")
					mentions(t, f.Remedy[2], "periodic begins a whole period after each start")
				}
			}
		})
	}
}

// within fails the test unless a number is near what it should be.
func within(t *testing.T, what string, is, want, share float64) {
	t.Helper()
	if math.Abs(is-want) > share*want {
		t.Errorf("%s: %.0f, want %.0f ± %.0f %%", what, is, want, 100*share)
	}
}

// Case C75: a few keys get the writes; lease churn is told apart. Of a compacted
// window the part counts that is left.
func TestCaseWhoWrites(t *testing.T) {
	t.Parallel()
	one := "KVD-CHURN-001 warning"
	for i, p := range []struct {
		name   string
		shape  shape
		busy   int // keys
		puts   int // of them
		grants int // of leases without keys
		want   []string
		log    []string // of the directory
	}{
		{"three of twelve keys", shape{}, 3, 4000, 3200, []string{one}, []string{one, "KVD-LEASE-004 warning"}},
		{"two keys, three members with certificates and users", shape{members: 3, mtls: true, auth: true}, 2, 3000, 0, []string{one}, []string{one}},
		{"leases without keys", shape{}, 1, 100, 2500, nil, []string{"KVD-LEASE-004 warning"}},
		{"a thousand keys", shape{members: 3}, 1000, 3000, 100, nil, nil},
		{"one key, etcd 3.6", shape{version: "3.6"}, 1, 2500, 0, []string{one}, []string{one}},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			client := c.Client(t)
			put(t, client, "/app/still/", 9, 9, 100)
			put(t, client, "/app/busy/", p.puts, p.busy, 100)
			r := look(t, connect(t, c))
			belongs(t, r, p.want...)
			if len(p.want) > 0 {
				f := finding(t, r, "KVD-CHURN-001")
				for i := range p.busy {
					within(t, "writes", evidence(t, f, fmt.Sprintf("writes to /app/busy/%d", i)).Value, float64(p.puts)/float64(p.busy), 0.01)
				}
				// A compacted window counts from where it can.
				if _, err := client.Compact(t.Context(), int64(p.puts/2)); err != nil {
					t.Fatal(err)
				}
				f = finding(t, look(t, connect(t, c)), "KVD-CHURN-001")
				sum := 0.0
				for i := range p.busy {
					sum += evidence(t, f, fmt.Sprintf("writes to /app/busy/%d", i)).Value
				}
				if want := p.puts + 10 - p.puts/2; int(sum) != want {
					t.Errorf("%.0f writes behind the compaction, want %d", sum, want)
				}
			}
			churn(t, client, p.grants)
			settleDisk(t)
			stopAll(t, c)
			off := lookAt(t, c.DataDir(0))
			belongs(t, off, p.log...)
			if off.Has("KVD-LEASE-004") {
				if n := evidence(t, finding(t, off, "KVD-LEASE-004"), "grants").Value; int(n) != p.grants {
					t.Errorf("%.0f grants", n)
				}
			}
			if i == 0 {
				shows(t, r, "KVD-CHURN-001")
				shows(t, off, "KVD-LEASE-004")
			}
		})
	}
}

// churn grants leases without keys, and revokes them: in the log, and nowhere else.
func churn(t *testing.T, client *clientv3.Client, grants int) {
	t.Helper()
	const at = 16
	g, ctx := errgroup.WithContext(t.Context())
	for w := range at {
		g.Go(func() error {
			for i := w; i < grants; i += at {
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
}

// Case C75, live: leases are made at a high rate while it is looked at.
func TestCaseLeaseRate(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name  string
		shape shape
		apart time.Duration
		want  []string
	}{
		{"many a second", shape{}, time.Millisecond, []string{"KVD-LEASE-004 warning"}},
		{"many a second, three with certificates and users", shape{members: 3, mtls: true, auth: true}, time.Millisecond, []string{"KVD-LEASE-004 warning"}},
		{"a few", shape{members: 3}, 200 * time.Millisecond, nil},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			client := c.Client(t)
			for range 8 {
				every(t, p.apart*8, func(ctx context.Context) {
					if l, err := client.Grant(ctx, 60); err == nil {
						_, _ = client.Revoke(ctx, l.ID) // it ends by itself
					}
				})
			}
			belongs(t, look(t, connect(t, c), func(o *diagnose.CollectOptions) { o.Interval = 3 * time.Second }), p.want...)
		})
	}
}

// Case C17: kube-apiserver's compactor stopped long ago; what a compaction and a
// defragmentation give back is as was said, by the cluster and by its file.
func TestCaseCompactorStopped(t *testing.T) {
	t.Parallel()
	for i, p := range []struct {
		name             string
		shape            shape
		puts, keys, size int
	}{
		{"300 revisions of each key", shape{}, 60000, 200, 500},
		{"three with certificates and users", shape{members: 3, mtls: true, auth: true}, 22000, 100, 1000},
		{"large values, etcd 3.6", shape{version: "3.6"}, 21000, 50, 3000},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := p.shape.start(t)
			client := c.Client(t)
			for i := range 5 {
				if _, err := client.Put(t.Context(), "compact_rev_key", fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			put(t, client, "/registry/pods/default/p", p.puts, p.keys, p.size)
			settleDisk(t)
			r := look(t, connect(t, c))
			belongs(t, r, "KVD-SPACE-005 warning")
			f := finding(t, r, "KVD-SPACE-005")
			mentions(t, f.Summary, "for each", "compact_rev_key was last written at revision 6")
			const what = "given back by compaction and defragmentation"
			said := evidence(t, f, what).Value
			stopAll(t, c)
			off := lookAt(t, c.DataDir(0))
			belongs(t, off, "KVD-SPACE-005 warning")
			inFile := evidence(t, finding(t, off, "KVD-SPACE-005"), what).Value
			startsAgain(t, c, "nothing is wrong with it")
			before := dbSize(t, c)
			kvdOn(t, c, "compact", "--to", "head", "--physical", "--yes")
			kvdOn(t, c, "defrag", "--yes")
			gave := float64(before - dbSize(t, c))
			within(t, "given back", gave, said, 0.2)
			within(t, "given back, by the file", gave, inFile, 0.2)
			good := look(t, connect(t, c))
			belongs(t, good)
			if i == 0 {
				remedied(t, "KVD-SPACE-005", r, good, "kvd compact --to head --physical --yes", "kvd defrag --yes")
			}
		})
	}
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
