package ops_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// quota looks at a place as `kvd quota` does.
func (p *place) quotaReport(t *testing.T) ops.QuotaReport {
	t.Helper()
	r, err := ops.Quota(servertest.Context(t, time.Minute), p.KVD, p.view(t), ops.DefaultQuotaOptions(), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// quotaWorlds are worlds() with smaller quotas beside the case's own, so that
// filling them takes less time.
func quotaWorlds() map[string]world {
	return map[string]world{
		"1 member 16 MiB":          {members: 1, quota: 16 * mib, keyFmt: "/registry/pods/default/p%d"},
		"3 members 10 MiB":         {members: 3, quota: 10 * mib, keyFmt: "/registry/configmaps/kube-system/c%d"},
		"mTLS auth bin keys 8 MiB": {members: 1, quota: 8 * mib, secure: true, keyFmt: "\xff\xfe\x00%d"},
	}
}

// smallest is the one of them that make test tries.
const smallest = "mTLS auth bin keys 8 MiB"

func causes(r ops.QuotaReport) string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Cause)
	}
	return strings.Join(out, " ")
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %.0f, want %.0f ± %.0f %%", what, got, want, 100*share)
	}
}

// reclaim compacts to the head, defragments, and returns how many bytes the
// member's file lost.
func (p *place) reclaim(t *testing.T, before int64) float64 {
	t.Helper()
	p.compact(t, p.head(t))
	p.defragAll(t)
	return float64(before - p.view(t).Members[0].Status.DBSize)
}

// Case C02: 50 keys, overwritten until the quota is reached. The file is full of
// history, which defrag alone does not free.
func TestQuotaHistory(t *testing.T)      { quotaHistory(t, only(quotaWorlds(), smallest)) }
func TestQuotaHistory_more(t *testing.T) { quotaHistory(t, except(quotaWorlds(), smallest)) }

func quotaHistory(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			p.fill(t, 50, 8192)
			r := p.quotaReport(t)
			f := r.File
			t.Logf("live %.0f (records %.0f), history %.0f (%.1f %%), free %d, other %d of %d; %d revisions",
				f.Live.Bytes, r.Content.Live.Bytes, f.History.Bytes, 100*f.HistoryRatio, f.Free, f.Other, f.DBSize, f.Revisions)
			near(t, "live records", r.Content.Live.Bytes, 50*8192, 0.02)
			// Two records of 8 KiB fill five pages of 4 KiB. How many pages are free
			// depends on how many puts came into one commit.
			near(t, "history", f.History.Bytes, float64(f.Revisions-50)*5*4096/2, 0.03)
			if f.HistoryRatio < 0.92-f.FreeRatio || f.FreeRatio > 0.1 || f.LastCompact != 0 {
				t.Errorf("history %.3f, free %.3f, last compaction %d; want ≈ 0.97, ≈ 0, 0", f.HistoryRatio, f.FreeRatio, f.LastCompact)
			}
			if r.Content.Keys != 50 || r.LargestPut != 0 || *r.Usage < 0.99 || *r.EffectiveQuota != w.quota {
				t.Errorf("%d keys, largest put %d, usage %.3f, quota %d", r.Content.Keys, r.LargestPut, *r.Usage, *r.EffectiveQuota)
			}
			if got := causes(r); !strings.HasPrefix(got, "nospace") || !strings.HasSuffix(got, "nearly_full history_fills_file") {
				t.Errorf("findings: %s", got)
			}
			if min := r.Content.Groups[0].History; min < f.Revisions-50 || min > f.Revisions {
				t.Errorf("old revisions of the keys: at least %d of %d kept", min, f.Revisions)
			}
			p.defragAll(t)
			if again := p.quotaReport(t); again.File.HistoryRatio < 0.9 {
				t.Errorf("after defrag alone: history %.3f of %d", again.File.HistoryRatio, again.File.DBSize)
			}
			near(t, "reclaimable", f.Reclaimable.Bytes, p.reclaim(t, f.DBSize), 0.05)
			if after := p.view(t).Members[0].Status.DBSize; after >= mib {
				t.Errorf("after compaction and defrag: %d bytes", after)
			}
		})
	}
}

// Case C03: live data fills the file; nothing can be reclaimed, and the report
// says where it is.
func TestQuotaLive(t *testing.T)      { quotaLive(t, only(quotaWorlds(), smallest)) }
func TestQuotaLive_more(t *testing.T) { quotaLive(t, except(quotaWorlds(), smallest)) }

func quotaLive(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			small, big := "/registry/pods/default/p%d", "/registry/wgpolicyk8s.io/policyreports/team/r%d"
			group := "/registry/wgpolicyk8s.io/policyreports/"
			if w.secure {
				small, big, group = "\xff/small/%d", "\xff/b\x00g/%d", "\xff/b\x00g/"
			}
			p.keyFmt = small
			p.put(t, 300, 300, 300)
			p.keyFmt = big
			p.fill(t, 1<<20, 8192)
			p.compact(t, p.head(t))
			p.defragAll(t)
			r := p.quotaReport(t)
			resp, err := p.Client.Get(t.Context(), group, clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				t.Fatal(err)
			}
			f, top := r.File, r.Content.Groups[0]
			t.Logf("%q: %d keys, %.0f ± %.0f bytes, %.1f %%; live %.0f of %d, history %.1f %%, in use %.1f %%; read %d",
				top.Prefix, top.Keys, top.Bytes.Bytes, top.Bytes.Error, 100*top.Share, f.Live.Bytes, f.DBSize, 100*f.HistoryRatio, 100*f.InUseRatio, r.Content.ReadBytes)
			if string(top.Prefix) != group || top.Keys != resp.Count {
				t.Errorf("top prefix %q with %d keys, want %q with %d", top.Prefix, top.Keys, group, resp.Count)
			}
			near(t, "bytes of the top prefix", top.Bytes.Bytes, float64(resp.Count)*8192, 0.02)
			if top.Share < 0.97 || f.InUseRatio < 0.95 || f.LiveRatio < 0.9 || f.HistoryRatio > 0.05 {
				t.Errorf("share %.3f, in use %.3f, live %.3f, history %.3f", top.Share, f.InUseRatio, f.LiveRatio, f.HistoryRatio)
			}
			last := r.Findings[len(r.Findings)-1]
			if last.Cause != ops.FindLive || !strings.Contains(last.Message, "no reclaimable space") || !strings.Contains(last.Message, fmt.Sprint(resp.Count)) {
				t.Errorf("finding: %+v", last)
			}
			if f.Reclaimable.Bytes > 0.1*float64(f.DBSize) {
				t.Errorf("reclaimable: %.0f of %d", f.Reclaimable.Bytes, f.DBSize)
			}
		})
	}
}

// Case C17: 300 revisions for each live key and nobody compacts. What can be
// reclaimed is known before it is.
func TestQuotaNobodyCompacts(t *testing.T) { quotaNobodyCompacts(t, updated{20, 300, 1024}) }
func TestQuotaNobodyCompacts_more(t *testing.T) {
	quotaNobodyCompacts(t, updated{5, 900, 200}, updated{40, 100, 5000})
}

type updated struct{ keys, updates, size int }

func quotaNobodyCompacts(t *testing.T, cases ...updated) {
	t.Parallel()
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%d keys, %d updates of %d bytes", tc.keys, tc.updates, tc.size), func(t *testing.T) {
			t.Parallel()
			p := world{members: 1, keyFmt: "/registry/leases/kube-node-lease/n%d"}.build(t)
			p.put(t, tc.keys*tc.updates, tc.keys, tc.size)
			p.committed(t)
			r := p.quotaReport(t)
			near(t, "revisions per live key", r.File.HistoryPerKey, float64(tc.updates), 0.01)
			near(t, "reclaimable", r.File.Reclaimable.Bytes, p.reclaim(t, r.File.DBSize), 0.2)
		})
	}
}

// Case C07: one member's quota is smaller, and holds for all.
func TestQuotaSmallest(t *testing.T)      { quotaSmallest(t, only(oddQuotas(), "6 32 32 mTLS")) }
func TestQuotaSmallest_more(t *testing.T) { quotaSmallest(t, except(oddQuotas(), "6 32 32 mTLS")) }

type oddQuota struct {
	quotas []int64 // MiB
	odd    string
	secure bool
}

func oddQuotas() map[string]oddQuota {
	return map[string]oddQuota{
		"64 64 16":      {[]int64{64, 64, 16}, "m3", false},
		"6 32 32 mTLS":  {[]int64{6, 32, 32}, "m1", true},
		"32 4 32 32 32": {[]int64{32, 4, 32, 32, 32}, "m2", false},
	}
}

func quotaSmallest(t *testing.T, in map[string]oddQuota) {
	t.Parallel()
	for name, tc := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := servertest.Options{Options: local.Options{Members: len(tc.quotas), MemberArgs: func(i int) []string {
				return []string{fmt.Sprintf("--quota-backend-bytes=%d", tc.quotas[i]*mib), "--unsafe-no-fsync"}
			}}}
			if tc.secure {
				o.TLS = servertest.NewCerts(t).MutualTLS()
			}
			p := &place{world: world{secure: tc.secure, keyFmt: "/registry/events/default/e%d"}, Cluster: servertest.Start(t, o)}
			if tc.secure {
				p.EnableAuth(t)
			}
			p.Client, p.KVD = p.Cluster.Client(t), p.connect(t)
			check := func(when string, more string) ops.QuotaReport {
				t.Helper()
				r := p.quotaReport(t)
				if r.LimitedBy != tc.odd || *r.EffectiveQuota != slices.Min(tc.quotas)*mib {
					t.Errorf("%s: effective quota %d of %s, want %s's", when, *r.EffectiveQuota, r.LimitedBy, tc.odd)
				}
				var odd []string
				for _, f := range r.Findings {
					if f.Cause == ops.FindQuotaDiffers {
						odd = append(odd, f.Member)
					}
				}
				if len(odd) != 1 || odd[0] != tc.odd {
					t.Errorf("%s: members that differ: %v, want %s", when, odd, tc.odd)
				}
				if got := causes(r); !strings.Contains(got, more) {
					t.Errorf("%s: findings %s, want %s in them", when, got, more)
				}
				return r
			}
			if r := check("empty", "quota_differs"); r.LargestPut != 3<<19-512 {
				t.Errorf("largest put into an empty cluster: %d", r.LargestPut)
			}
			p.fill(t, 1<<20, 64<<10)
			r := check("full", "nospace")
			if r.Fullest != tc.odd || *r.Usage < 0.98 || r.LargestPut != 0 {
				t.Errorf("fullest %s at %.3f, largest put %d", r.Fullest, *r.Usage, r.LargestPut)
			}
			for _, a := range r.Alarms {
				if a.Type == cluster.AlarmNoSpace && a.MemberName != tc.odd {
					t.Errorf("alarm of %s", a.MemberName)
				}
			}
		})
	}
}

// Case C10, and the arithmetic of the largest put: so many bytes pass, one more
// does not, in a plain put as little as in a Txn inside a Txn.
func TestQuotaLargestPut(t *testing.T)      { quotaLargestPut(t, only(quotaWorlds(), smallest)) }
func TestQuotaLargestPut_more(t *testing.T) { quotaLargestPut(t, except(quotaWorlds(), smallest)) }

func quotaLargestPut(t *testing.T, in map[string]world) {
	t.Parallel()
	for name, w := range in {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t)
			room := func() int64 {
				left := w.quota
				for _, h := range ops.HeadroomOf(p.view(t)) {
					left = min(left, h.Left)
				}
				return left
			}
			next := int((w.quota - 5*mib) / (80 << 10))
			p.put(t, next, next, 64<<10)
			p.committed(t)
			for room() > mib {
				for range 4 {
					if _, err := p.Client.Put(t.Context(), p.key(next), strings.Repeat("x", 64<<10)); err != nil {
						t.Fatal(err)
					}
					next++
				}
				p.committed(t)
			}
			r := p.quotaReport(t)
			key := p.key(next)
			value := func(n int64) string { return strings.Repeat("x", max(int(n)-len(key), 0)) }
			// Members differ by a few pages, and each judges what comes through itself.
			fullest := p.Cluster.Client(t, p.fullest(t))
			nested := func(n int64) error {
				_, err := fullest.Txn(t.Context()).Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(key, value(n))}, nil)).Commit()
				return err
			}
			t.Logf("size %d of %d, largest put %d", *r.Members[0].DBSize, w.quota, r.LargestPut)
			if err := nested(r.LargestPut + 1); !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Errorf("a nested put of one byte too many: %v", err)
			}
			if got := p.quotaReport(t).LargestPut; got != 0 {
				t.Errorf("largest put under NOSPACE: %d", got)
			}
			if _, err := p.Client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Client.Put(t.Context(), key, value(p.quotaReport(t).LargestPut)); err != nil {
				t.Errorf("the largest put: %v", err)
			}
			if strings.Contains(causes(r), ops.FindNestedPuts) {
				t.Error("3.7.3 counts nested puts")
			}
		})
	}
}

// fullest returns the endpoint of the member with the least room.
func (p *place) fullest(t *testing.T) string {
	t.Helper()
	all := ops.HeadroomOf(p.view(t))
	return slices.MinFunc(all, func(a, b ops.Headroom) int { return cmp.Compare(a.Left, b.Left) }).Member.Endpoint
}

// Case C13, online: the server's own size counts, not that of the file, which
// etcd preallocates.
func TestQuotaTiny(t *testing.T) {
	t.Parallel()
	for name, w := range quotaWorlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.build(t, "--unsafe-no-fsync=false") // without fsync bbolt does not preallocate
			p.put(t, 3, 3, 10)
			p.committed(t)
			r := p.quotaReport(t)
			stat, err := os.Stat(p.DBPath(0))
			if err != nil {
				t.Fatal(err)
			}
			size := *r.Members[0].DBSize
			t.Logf("server says %d, the file has %d; %+v", size, stat.Size(), *r.File)
			if size < 20_000 || size > 70_000 || stat.Size() < 8*mib || *r.Usage > 0.01 || len(r.Findings) != 0 {
				t.Errorf("size %d, file %d, usage %.4f, findings %s", size, stat.Size(), *r.Usage, causes(r))
			}
			if r.Content.Keys != 3 || !r.Content.Exact {
				t.Errorf("%d keys, exact %v", r.Content.Keys, r.Content.Exact)
			}
		})
	}
}

// Without a quorum, and with members that are down, everything that can be read
// still is; without the right to read keys the members are still shown.
func TestQuotaDegraded(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 16 * mib, keyFmt: "/registry/pods/default/p%d"}.build(t)
	p.put(t, 200, 200, 2000)
	p.committed(t)
	follower := (p.Leader(t) + 1) % 3
	for i := range 3 {
		if i != follower {
			p.Kill(i)
		}
	}
	r := p.quotaReport(t)
	down := 0
	for _, m := range r.Members {
		if m.Error != nil && m.DBSize == nil {
			down++
		}
	}
	if down != 2 || r.Content.Keys != 200 || r.File.Member != p.Name(follower) {
		t.Errorf("%d members down, %d keys, read from %s", down, r.Content.Keys, r.File.Member)
	}
}

func TestQuotaDenied(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 16 * mib, keyFmt: "/app/%d"}.build(t)
	p.EnableAuth(t, servertest.User{Name: "app", Password: "pw", Prefix: "/app/"})
	c, err := cluster.Connect(cluster.Config{Endpoints: p.Endpoints(), User: "app", Password: "pw"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := ops.Quota(t.Context(), c, v, ops.DefaultQuotaOptions(), progress.Discard)
	if fault.KindOf(err) != fault.Denied || r.Content != nil || len(r.Members) != 1 || *r.Members[0].Quota != 16*mib {
		t.Errorf("%v, content %v, members %+v", err, r.Content, r.Members)
	}
}
