package cluster_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

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
	t.Parallel()
	const quota = 64 << 20
	s := three(t, local.Options{QuotaBytes: quota})
	c := connect(t, ep(s.Endpoint(1))) // one endpoint is enough
	v := view(t, c)
	if q, err := c.Quorum(t.Context()); err != nil || len(q.Endpoints()) != 3 {
		t.Errorf("quorum client: %v", err)
	}
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
	dead := (s.Leader(t) + 1) % 3 // a follower, so that writes go on
	s.Kill(dead)
	want := strings.Replace("m1 m2 m3", s.Name(dead), s.Name(dead)+":connection_refused", 1)
	if dead == 1 { // the only endpoint that was given
		c = connect(t, ep(s.Endpoint(0)))
	}
	v = view(t, c)
	if got := names(v); got != want {
		t.Errorf("one down: %q, want %q", got, want)
	}
	if v.FailuresTolerated() != 0 || v.Quorum() != 2 {
		t.Errorf("one down: tolerated %d", v.FailuresTolerated())
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	// What concerns the whole cluster goes around the dead member from now on.
	q, err := c.Quorum(t.Context())
	if err != nil || len(q.Endpoints()) != 2 || slices.Contains(q.Endpoints(), s.Endpoint(dead)) {
		t.Fatalf("quorum endpoints %v, %v", q, err)
	}
	for range 4 {
		if err := put(t, q); err != nil {
			t.Error(err)
		}
	}
	// The same where the dead endpoint was given: not asked twice, not listed twice.
	v = view(t, connect(t, ep(s.Endpoints()...)))
	if got := names(v); got != want || len(v.Unreached) != 0 {
		t.Errorf("dead endpoint given: %q, unreached %+v", got, v.Unreached)
	}
	// A given endpoint that is no member's is told apart.
	v = view(t, connect(t, ep(s.Endpoint((dead+1)%3), "http://"+closedPort(t))))
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
	t.Parallel()
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
	if len(lv.Members) != 1 || fault.CauseOf(lv.ListErr) != cluster.CauseLearner || lv.Members[0].Status == nil {
		t.Errorf("learner only: %+v", lv)
	}
	if _, err := connect(t, cfg).VotersView(t.Context()); fault.CauseOf(err) != cluster.CauseVotersUnknown || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("learner only: %v", err)
	}

	// A forwarded port is preferred over the advertised URL.
	forward := listener(t, func(conn net.Conn) { servertest.Pipe(conn, hostOf(s.Endpoint(0))) })
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

// A member that waits for its quorum serves its peers and not its clients: it
// is told from one that hangs.
func TestViewStarting_more(t *testing.T) {
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

func TestOtherClusterAndRecordedView(t *testing.T) {
	t.Parallel()
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

// A member that was begun anew alone, with the names and the token that it had, has its
// old ID in a cluster of its own: it is no voter that answers, whoever is asked.
func TestSameMemberOfAnotherCluster(t *testing.T) {
	t.Parallel()
	s := three(t, local.Options{})
	s.Kill(0)
	if err := os.RemoveAll(s.DataDir(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Launch(0, "--initial-cluster="+s.Name(0)+"="+s.PeerURL(0)); err != nil {
		t.Fatal(err)
	}
	s.Leader(t)
	for name, cfg := range map[string]cluster.Config{
		"one of the others is asked": ep(s.Endpoint(1)),
		"all are asked":              {Endpoints: []string{s.Endpoint(1), s.Endpoint(2), s.Endpoint(0)}},
	} {
		c := connect(t, cfg)
		const want = "m1:other_cluster m2 m3"
		deadline, v := time.Now().Add(20*time.Second), view(t, c)
		for names(v) != want && time.Now().Before(deadline) {
			v = view(t, c)
		}
		if got := names(v); got != want || v.FailuresTolerated() != 0 {
			t.Fatalf("%s: %q, want %q; %d more failures tolerated", name, got, want, v.FailuresTolerated())
		}
		if len(v.Strangers) != 1 || v.Strangers[0].Endpoint != s.Endpoint(0) || v.Strangers[0].ClusterID == v.ID || v.Strangers[0].MemberID != v.Members[0].ID {
			t.Errorf("%s: of another cluster: %+v", name, v.Strangers)
		}
	}
}

// Everything is closed: no goroutine stays after many clients, good and bad.
func TestNoGoroutineLeft(t *testing.T) {
	s := servertest.Start(t, servertest.Options{})
	use := func() {
		for _, cfg := range []cluster.Config{ep(s.Endpoint(0)), ep("http://" + closedPort(t)), ep(s.PeerURL(0))} {
			c, err := cluster.Connect(cfg)
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
		_, err := cluster.Connect(c.cfg)
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
}
