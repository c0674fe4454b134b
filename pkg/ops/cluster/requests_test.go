package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

func TestNoSpaceAlarmAndSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		quota   int64
		members int
	}{{2 << 20, 1}, {4 << 20, 3}} {
		s := servertest.Start(t, servertest.Options{Options: local.Options{Members: c.members, QuotaBytes: c.quota}})
		cl := connect(t, ep(s.Endpoint(0)))
		q, err := cl.Quorum(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for range 300 { // the quota is held against a size that grows with the commits of the backend; of one member by a put or two more than of another
			if _, last = q.Put(t.Context(), "k", strings.Repeat("x", 100<<10)); last != nil {
				break
			}
		}
		if fault.CauseOf(last) != cluster.CauseNoSpace || fault.KindOf(last) != fault.Refused {
			t.Fatalf("filled: %v", last)
		}
		v := view(t, cl)
		for len(v.Members[0].Status.Alarms) == 0 || slices.ContainsFunc(v.Members, func(m cluster.Member) bool {
			return len(m.Status.Alarms) != len(v.Alarms)
		}) {
			v = view(t, cl) // a follower applies a moment later
		}
		full := func(m cluster.Member) bool { r, ok := m.Status.UsageRatio(); return ok && r >= 0.9 }
		for deadline := time.Now().Add(30 * time.Second); !allOf(v.Members, full) && time.Now().Before(deadline); {
			v = view(t, cl) // and its file grows at its next commit
		}
		if !v.HasAlarm(cluster.AlarmNoSpace) || len(v.Alarms) == 0 || !v.Alarms[0].InMemberList || v.EffectiveQuota() != c.quota {
			t.Fatalf("alarms %+v", v.Alarms)
		}
		for _, m := range v.Members {
			if r, ok := m.Status.UsageRatio(); !ok || r < 0.9 || len(m.Status.Alarms) != len(v.Alarms) || len(m.Status.Errors) != 0 {
				t.Errorf("%s: ratio %v, status %+v", m.Name, r, m.Status)
			}
		}
		if _, err := q.Delete(t.Context(), "k"); err != nil {
			t.Errorf("delete under NOSPACE: %v", err)
		}
		// Every member above its quota raises an alarm of its own, some later.
		for range 10 {
			list, err := q.Etcd().AlarmList(t.Context()) // by a proposal: what was raised before is seen
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range list.Alarms {
				if gone, err := q.AlarmDisarm(t.Context(), a.MemberID, a.Alarm.String()); err != nil || len(gone) != 1 {
					t.Errorf("disarm: %+v, %v", gone, err)
				}
			}
		}
		if v = view(t, cl); len(v.Members[0].Status.Alarms) != 0 {
			t.Errorf("alarms left: %+v", v.Alarms)
		}
		for _, bad := range []struct {
			id  uint64
			typ string
		}{{0, cluster.AlarmNoSpace}, {v.Members[0].ID, "NONE"}, {v.Members[0].ID, ""}} {
			if _, err := q.AlarmDisarm(t.Context(), bad.id, bad.typ); fault.KindOf(err) != fault.Usage {
				t.Errorf("disarm %+v: %v", bad, err)
			}
		}
	}
}

func allOf(members []cluster.Member, is func(cluster.Member) bool) bool {
	return !slices.ContainsFunc(members, func(m cluster.Member) bool { return !is(m) })
}

// C81: the server's limit and the client's are different errors.
func TestRequestSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want map[int]string // bytes of the value: cause
	}{
		{"default", nil, map[int]string{1_400_000: "", 1_572_864 - 2048: "", 1_600_000: cluster.CauseRequestTooLarge, 2_300_000: cluster.CauseClientMsgTooLarge}},
		{"10 MiB", []string{"--max-request-bytes=10485760"}, map[int]string{1_600_000: "", 2_000_000: "", 2_300_000: cluster.CauseClientMsgTooLarge}},
		{"64 KiB", []string{"--max-request-bytes=65536"}, map[int]string{60_000: "", 70_000: cluster.CauseRequestTooLarge, 1_000_000: cluster.CauseRequestTooLarge}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := servertest.Start(t, servertest.Options{Options: local.Options{Args: c.args}})
			q, err := connect(t, ep(s.Endpoint(0))).Quorum(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for size, cause := range c.want {
				_, err := q.Put(t.Context(), "k", strings.Repeat("x", size))
				if fault.CauseOf(err) != cause || (cause != "" && fault.KindOf(err) != fault.Refused) {
					t.Errorf("%d bytes: %v, want %q", size, err, cause)
				}
			}
		})
	}
}

func TestRevisionsLeasesAndMembers(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{})
	c := connect(t, ep(s.Endpoint(0)))
	q, err := c.Quorum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := put(t, q); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Compact(t.Context(), 4, true); err != nil {
		t.Fatal(err)
	}
	_, old := q.Get(t.Context(), "k", clientv3.WithRev(2))
	_, future := q.Get(t.Context(), "k", clientv3.WithRev(1000))
	_, err = c.Member(42)
	m, merr := c.Member(view(t, c).Members[0].ID)
	if merr != nil {
		t.Fatal(merr)
	}
	for what, x := range map[string]struct {
		err   error
		cause string
	}{
		"old revision":    {old, cluster.CauseCompacted},
		"future revision": {future, cluster.CauseFutureRevision},
		"compact again":   {q.Compact(t.Context(), 4, false), cluster.CauseCompacted},
		"compact ahead":   {q.Compact(t.Context(), 1000, false), cluster.CauseFutureRevision},
		"lease":           {q.LeaseRevoke(t.Context(), 12345), cluster.CauseLeaseNotFound},
		"member":          {err, cluster.CauseMemberNotFound},
		"move to nowhere": {m.MoveLeader(t.Context(), 42), "bad_transferee"},
	} {
		if fault.CauseOf(x.err) != x.cause {
			t.Errorf("%s: %s: %v", what, fault.CauseOf(x.err), x.err)
		}
	}
	id, err := q.LeaseGrant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.LeaseRevoke(t.Context(), id); err != nil {
		t.Error(err)
	}
	// The caller's own deadline and Ctrl-C.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Status(ctx); fault.KindOf(err) != fault.Interrupted {
		t.Errorf("canceled: %v", err)
	}
	pause(t, s, 0)
	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := m.Status(ctx); fault.CauseOf(err) != cluster.CauseNoAnswer {
		t.Errorf("paused with a connection that stands: %v", err)
	}
}

func TestMovedLeaderAndLag(t *testing.T) {
	t.Parallel()
	s := three(t, local.Options{})
	c := connect(t, ep(s.Endpoints()...))
	v := view(t, c)
	old, _ := v.LeaderMember()
	next := v.FollowersFirst()[0]
	follower, err := c.Member(next.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.MoveLeader(t.Context(), next.ID); fault.CauseOf(err) != cluster.CauseNotLeader {
		t.Errorf("asked of a follower: %v", err)
	}
	m, err := c.Member(old.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.MoveLeader(t.Context(), next.ID); err != nil {
		t.Fatal(err)
	}
	if v = view(t, c); v.Leader != next.ID {
		t.Errorf("leader %x, want %x", v.Leader, next.ID)
	}
	for _, m := range v.Members {
		if v.Lag(m) > 5 {
			t.Errorf("%s lags %d", m.Name, v.Lag(m))
		}
	}
}

// etcd's own verdict after 7 s, with more patience than that.
func TestRequestTimedOut(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{Options: local.Options{Members: 2}})
	c := connect(t, ep(s.Endpoint(0)))
	view(t, c)
	s.Kill(1)
	// Asked of the member that is left only.
	one := connect(t, ep(s.Endpoint(0)))
	q, err := one.Quorum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the leader may be there still at the first, which is proposed then; the second is not
		begun := time.Now()
		err = put(t, q)
		if cause := fault.CauseOf(err); cause != cluster.CauseRequestTimedOut && cause != cluster.CauseNoLeader || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("put: %s: %v", cause, err)
		}
		if took := time.Since(begun); took > cluster.DefaultCommandTimeout {
			t.Errorf("took %v", took)
		}
	}
}
