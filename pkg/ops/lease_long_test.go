//go:build long

package ops_test

import (
	"testing"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/server/servertest"
)

// What is left of a lease shrinks, and is whole again under the next leader.
func TestANewLeaderGivesLeasesTheirWholeTime(t *testing.T) {
	t.Parallel()
	p := world{members: 3, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	id := uint64(p.grant(t, 60, "k"))
	left := func() int64 {
		l, err := ops.ShowLease(t.Context(), p.KVD, p.view(t), id)
		if err != nil {
			return -1
		}
		return *l.TTL
	}
	waitFor(t, "ten seconds of a lease to pass", func() bool { n := left(); return n >= 0 && n <= 50 })
	mc, err := p.KVD.Member(p.view(t).Leader)
	if err != nil {
		t.Fatal(err)
	}
	next, err := p.view(t).FindMember(p.Name((p.Leader(t) + 1) % 3))
	if err != nil {
		t.Fatal(err)
	}
	if err := mc.MoveLeader(t.Context(), next.ID); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the new leader to give the lease its whole time", func() bool { return left() > 50 })
}

// Many leases that expire at once are revoked a thousand per second: until then
// they are expired, and not gone. etcd says "-1 s" of some of them, which is also
// what it says of a lease that it does not have.
func TestExpiredLeasesThatAreNotRevokedYet(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 64 * mib, keyFmt: "k%d"}.build(t)
	ctx := servertest.Context(t, time.Minute)
	each(9000, func(int) bool {
		_, err := p.Client.Grant(ctx, 2)
		if err != nil {
			t.Error(err)
		}
		return err == nil
	})
	seen, below := 0, false
	waitFor(t, "expired leases", func() bool {
		l, err := p.leases(t, func(o *ops.LeaseOptions) { o.TTL, o.Limit, o.Rate = true, 50, 2000 })
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range l.Leases {
			if x.Expired != (*x.TTL <= 0) || *x.Granted != 2 {
				t.Fatalf("lease %+v", x)
			}
			below = below || *x.TTL < 0
		}
		seen += l.Expired
		return seen > 0 && below || l.Total == 0
	})
	if seen == 0 {
		t.Error("9000 leases of 2 s ended, and none was seen between its end and its revocation")
	}
	waitFor(t, "the last lease to be revoked", func() bool {
		l, err := p.leases(t, func(*ops.LeaseOptions) {})
		return err == nil && l.Total == 0
	})
}
