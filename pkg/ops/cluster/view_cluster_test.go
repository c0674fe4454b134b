package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"runtime"
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

func three(t *testing.T, o local.Options) *servertest.Cluster {
	t.Helper()
	o.Members = 3
	return servertest.Start(t, servertest.Options{Options: o})
}

// names lists the members with the cause of their error, if any.
func names(v cluster.View) string {
	var out []string
	for _, m := range v.Members {
		s := m.Name
		if m.Err != nil {
			s += ":" + fault.CauseOf(m.Err)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestViewThreeMembers(t *testing.T) {
	const quota = 64 << 20
	s := three(t, local.Options{QuotaBytes: quota})
	c := connect(t, ep(s.Endpoint(1))) // one endpoint is enough
	v := view(t, c)
	leader := s.Name(s.Leader(t))
	if got := names(v); got != "m1 m2 m3" {
		t.Errorf("members %q", got)
	}
	if lm, ok := v.LeaderMember(); !ok || lm.Name != leader || v.Role(lm) != cluster.RoleLeader {
		t.Errorf("leader %+v, want %s", lm, leader)
	}
	if v.Quorum() != 2 || v.FailuresTolerated() != 1 || len(v.Voters()) != 3 || v.EffectiveQuota() != quota || v.Err() != nil {
		t.Errorf("quorum %d, tolerated %d, quota %d, err %v", v.Quorum(), v.FailuresTolerated(), v.EffectiveQuota(), v.Err())
	}
	if order := v.FollowersFirst(); len(order) != 3 || order[2].Name != leader || order[0].Name > order[1].Name {
		t.Errorf("order %+v", order)
	}
	for i, m := range v.Members {
		st := m.Status
		if m.Endpoint != s.Endpoint(i) || st.Version != "3.7.3" || st.Quota != quota || !st.QuotaKnown || st.DBSize == 0 || st.DBInUse == 0 || st.DBInUse > st.DBSize || st.RaftTerm == 0 || st.AppliedIndex == 0 {
			t.Errorf("%s: %s %+v", m.Name, m.Endpoint, st)
		}
	}

	// One down: it is in the view, with its cause.
	begun := time.Now()
	s.Kill(2)
	v = view(t, c)
	if got := names(v); got != "m1 m2 m3:connection_refused" {
		t.Errorf("one down: %q", got)
	}
	if v.FailuresTolerated() != 0 || v.Quorum() != 2 {
		t.Errorf("one down: tolerated %d", v.FailuresTolerated())
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	// The same where the dead endpoint was given: not asked twice, not listed twice.
	v = view(t, connect(t, ep(s.Endpoints()...)))
	if got := names(v); got != "m1 m2 m3:connection_refused" || len(v.Unreached) != 0 {
		t.Errorf("dead endpoint given: %q, unreached %+v", got, v.Unreached)
	}
	// A given endpoint that is no member's is told apart.
	v = view(t, connect(t, ep(s.Endpoint(0), "http://"+closedPort(t))))
	if len(v.Unreached) != 1 || fault.CauseOf(v.Unreached[0].Err) != cluster.CauseConnectionRefused {
		t.Errorf("unreached %+v", v.Unreached)
	}
}

func TestViewWithoutQuorum(t *testing.T) {
	t.Parallel()
	s := three(t, local.Options{})
	c := connect(t, cluster.Config{Endpoints: s.Endpoints(), CommandTimeout: 2 * time.Second})
	view(t, c)
	q, err := c.Quorum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alive := s.Leader(t)
	var down []int
	for i := range 3 {
		if i != alive {
			down = append(down, i)
		}
	}
	s.Kill(down[0])
	pause(t, s, down[1])

	begun := time.Now()
	v := view(t, c)
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("view took %v", took)
	}
	killed, _ := v.FindMember(s.Name(down[0]))
	paused, _ := v.FindMember(s.Name(down[1]))
	if fault.CauseOf(killed.Err) != cluster.CauseConnectionRefused || fault.CauseOf(paused.Err) != cluster.CauseNoAnswer || v.FailuresTolerated() != 0 {
		t.Errorf("killed: %v, paused: %v", killed.Err, paused.Err)
	}
	m, err := c.Member(memberNamed(t, v, s.Name(alive)).ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get(t.Context(), "x"); err != nil {
		t.Errorf("serializable read: %v", err)
	}
	for what, err := range map[string]error{"put": put(t, q), "compact": q.Compact(t.Context(), 1, false)} {
		if cause := fault.CauseOf(err); cause != cluster.CauseNoQuorum || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %s: %v", what, cause, err)
		}
	}
	s.Kill(down[1])
	s.Kill(alive)
	_, err = c.View(t.Context())
	if lines := flat(err); len(lines) != 3 || fault.CauseOf(lines[2]) != cluster.CauseConnectionRefused {
		t.Errorf("want one error per endpoint: %v", err)
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
	begun := time.Now()
	err = put(t, q)
	if cause := fault.CauseOf(err); cause != cluster.CauseRequestTimedOut && cause != cluster.CauseNoLeader || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("put: %s: %v", cause, err)
	}
	if took := time.Since(begun); took > cluster.DefaultCommandTimeout {
		t.Errorf("took %v", took)
	}
}

func flat(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func put(t *testing.T, q *cluster.QuorumClient) error {
	t.Helper()
	_, err := q.Put(t.Context(), "k", "v")
	return err
}

func memberNamed(t *testing.T, v cluster.View, name string) cluster.Member {
	t.Helper()
	m, err := v.FindMember(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestViewLearnerUnstartedForwarded(t *testing.T) {
	certs := servertest.NewCerts(t)
	s := servertest.Start(t, servertest.Options{Options: local.Options{TLS: certs.MutualTLS()}})
	cfg := with(ep(s.Endpoint(0)), certs.CA, certs.Client)
	admin := s.Client(t)
	i, err := s.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.MemberAddAsLearner(t.Context(), []string{s.PeerURL(i)}); err != nil {
		t.Fatal(err)
	}
	c := connect(t, cfg)
	v := view(t, c)
	learner := v.Learners()
	if len(learner) != 1 || fault.CauseOf(learner[0].Err) != cluster.CauseNotStarted || v.Role(learner[0]) != cluster.RoleUnstarted || learner[0].Started() {
		t.Fatalf("unstarted learner: %+v", v.Members)
	}
	if _, err := c.Member(learner[0].ID); fault.CauseOf(err) != cluster.CauseNotStarted {
		t.Errorf("client of the unstarted: %v", err)
	}
	if err := s.StartMember(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	v = view(t, c)
	if l := v.Learners(); len(l) != 1 || l[0].Err != nil || v.Role(l[0]) != cluster.RoleLearner || v.Quorum() != 1 || v.FailuresTolerated() != 0 || len(v.FollowersFirst()) != 2 || v.FollowersFirst()[0].ID != l[0].ID {
		t.Fatalf("learner: %+v", v.Members)
	}
	// Cluster-wide requests never go to the learner, whatever was given.
	both := cfg
	both.Endpoints = []string{s.Endpoint(i), s.Endpoint(0)}
	bc := connect(t, both)
	q, err := bc.Quorum(t.Context())
	if err != nil || !slices.Equal(q.Endpoints(), []string{s.Endpoint(0)}) {
		t.Fatalf("quorum endpoints %v, %v", q, err)
	}
	for range 4 {
		if err := put(t, q); err != nil {
			t.Error(err)
		}
	}
	lm, err := bc.Member(v.Learners()[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lm.Get(t.Context(), "k"); err != nil {
		t.Errorf("serializable read from a learner: %v", err)
	}
	if _, err := lm.MemberList(t.Context()); fault.CauseOf(err) != cluster.CauseLearner {
		t.Errorf("member list from a learner: %v", err)
	}
	// Only the learner given: its status, and a word on the rest.
	cfg.Endpoints = []string{s.Endpoint(i)}
	lv := view(t, connect(t, cfg))
	if len(lv.Members) != 1 || len(lv.Notes) != 1 || lv.Members[0].Status == nil {
		t.Errorf("learner only: %+v", lv)
	}

	// A forwarded port is preferred over the advertised URL.
	forward := listener(t, func(conn net.Conn) { pipe(conn, hostOf(s.Endpoint(0))) })
	cfg.Endpoints = []string{"https://" + forward}
	fv := view(t, connect(t, cfg))
	if m := memberNamed(t, fv, s.Name(0)); m.Endpoint != "https://"+forward || m.Err != nil {
		t.Errorf("forwarded: %+v", m)
	}
	// A voter that was added and never started counts against the quorum.
	if _, err := admin.MemberAdd(t.Context(), []string{"https://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	v = view(t, c)
	if v.Quorum() != 2 || v.FailuresTolerated() != 0 || len(v.Voters()) != 2 {
		t.Errorf("with an unstarted voter: quorum %d", v.Quorum())
	}
}

func pipe(a net.Conn, to string) {
	b, err := net.Dial("tcp", to)
	if err != nil {
		a.Close()
		return
	}
	defer a.Close()
	defer b.Close()
	go func() { _, _ = io.Copy(b, a); b.Close() }()
	_, _ = io.Copy(a, b)
}

// A member that waits for its quorum serves its peers and not its clients: it
// is told from one that hangs.
func TestViewStarting(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	for name, tls := range map[string]*local.TLS{"plain": nil, "mtls": certs.MutualTLS()} {
		t.Run(name, func(t *testing.T) {
			s := servertest.Start(t, servertest.Options{Options: local.Options{Members: 4, TLS: tls}})
			cfg := ep(s.Endpoint(0))
			if tls != nil {
				cfg = with(cfg, certs.CA, certs.Client)
			}
			for _, i := range []int{1, 2, 3} {
				s.Kill(i)
			}
			if err := s.Launch(1); err != nil {
				t.Fatal(err)
			}
			c := connect(t, cfg)
			want := "m1 m2:starting m3:connection_refused m4:connection_refused"
			deadline := time.Now().Add(20 * time.Second)
			for got := ""; got != want; {
				if got = names(view(t, c)); got != want && time.Now().After(deadline) {
					t.Fatalf("%q, want %q", got, want)
				}
			}
		})
	}
}

func TestNoSpaceAlarmAndSizes(t *testing.T) {
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
		for range 30 {
			if _, last = q.Put(t.Context(), "k", strings.Repeat("x", 400<<10)); last != nil {
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
			list, err := q.AlarmList(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range list {
				if gone, err := q.AlarmDisarm(t.Context(), a.MemberID, a.Type); err != nil || len(gone) != 1 {
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

// C81: the server's limit and the client's are different errors.
func TestRequestSizes(t *testing.T) {
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
		"move to nowhere": {m.MoveLeader(t.Context(), 42), cluster.CauseRejected},
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

func TestOtherClusterAndRecordedView(t *testing.T) {
	a, b := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	v := view(t, connect(t, cluster.Config{Endpoints: []string{a.Endpoint(0), b.Endpoint(0)}, Source: "test"}))
	if len(v.Members) != 1 || len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "another cluster") {
		t.Errorf("two clusters: %+v", v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back cluster.View
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(raw) {
		t.Errorf("a view changes when recorded: %v\n%s\n%s", err, raw, again)
	}
}

// Everything is closed: no goroutine stays after many clients, good and bad.
func TestNoGoroutineLeft(t *testing.T) {
	s := servertest.Start(t, servertest.Options{})
	use := func() {
		for _, cfg := range []cluster.Config{ep(s.Endpoint(0)), ep("http://" + closedPort(t)), ep(s.PeerURL(0))} {
			c, err := cluster.Connect(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.View(t.Context()); err == nil {
				if _, err := c.Quorum(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if _, err := c.View(t.Context()); err == nil {
				t.Error("a closed client works")
			}
		}
	}
	use()
	before := runtime.NumGoroutine()
	for range 10 {
		use()
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before+2 {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func TestBadBundles(t *testing.T) {
	certs := servertest.NewCerts(t)
	for name, c := range map[string]struct {
		cfg  cluster.Config
		kind fault.Kind
	}{
		"no endpoint":     {cluster.Config{}, fault.Usage},
		"cert only":       {with(ep("https://127.0.0.1:1"), certs.CA, servertest.Pair{Cert: certs.Client.Cert}), fault.Usage},
		"no such file":    {with(ep("https://127.0.0.1:1"), "/no/such/ca.pem", certs.Client), fault.Denied},
		"key of another":  {with(ep("https://127.0.0.1:1"), certs.CA, servertest.Pair{Cert: certs.Client.Cert, Key: certs.OtherClient.Key}), fault.Denied},
		"CA is not a PEM": {with(ep("https://127.0.0.1:1"), "view_cluster_test.go", certs.Client), fault.Denied},
	} {
		_, err := cluster.Connect(t.Context(), c.cfg)
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
}
