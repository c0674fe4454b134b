package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// Plans on recorded views: order, gates, what is skipped, what a failure stops.

func TestDefragOrder(t *testing.T) {
	for _, tc := range []struct {
		leader uint64
		want   []string
	}{{1, []string{"l", "b", "d", "c"}}, {2, []string{"l", "c", "d", "b"}}, {0, []string{"l", "b", "c", "d"}}} {
		v := fakeView(tc.leader, fakeMember{name: "c"}, fakeMember{name: "b"}, fakeMember{name: "l", learner: true}, fakeMember{name: "d"})
		var got []string
		for _, m := range DefragOrder(v, v.Members) {
			got = append(got, m.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("leader %d: %v, want %v", tc.leader, got, tc.want)
		}
	}
}

func TestNextLeader(t *testing.T) {
	v := fakeView(1, fakeMember{name: "a"}, fakeMember{name: "b", lag: 3}, fakeMember{name: "c", lag: 9}, fakeMember{name: "l", learner: true}, fakeMember{name: "e", down: true})
	for _, tc := range []struct {
		todo []uint64
		want string
	}{
		{nil, "b"},               // the one that has applied most
		{[]uint64{2}, "c"},       // rather one that is done than the most up to date
		{[]uint64{2, 3}, "b"},    // none is done
		{[]uint64{1, 2, 3}, "b"}, // the leader itself does not count
	} {
		todo := map[uint64]bool{}
		for _, id := range tc.todo {
			todo[id] = true
		}
		if got, ok := nextLeader(v, todo); !ok || got.Name != tc.want {
			t.Errorf("still to do %v: %s, want %s", tc.todo, got.Name, tc.want)
		}
	}
	if got, ok := nextLeader(fakeView(1, fakeMember{name: "a"}, fakeMember{name: "l", learner: true}), nil); ok {
		t.Errorf("%s may lead", got.Name)
	}
}

func TestGates(t *testing.T) {
	for _, tc := range []struct {
		name  string
		view  func(*cluster.View)
		cause string
	}{
		{"all well", func(*cluster.View) {}, ""},
		{"NOSPACE is none", func(v *cluster.View) { v.Alarms = []cluster.Alarm{{MemberID: 1, Type: cluster.AlarmNoSpace}} }, ""},
		{"CORRUPT", func(v *cluster.View) { v.Alarms = []cluster.Alarm{{MemberID: 2, Type: cluster.AlarmCorrupt}} }, cluster.CauseCorrupt},
		{"a voter is missing", func(v *cluster.View) { v.Members[2].Status, v.Members[2].Err = nil, errDeadline() }, "voter_missing"},
		{"a voter never started", func(v *cluster.View) { v.Members = append(v.Members, cluster.Member{ID: 9}) }, "voter_missing"},
		{"a voter never started, as its error says", func(v *cluster.View) {
			v.Members = append(v.Members, cluster.Member{ID: 9, Err: &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNotStarted, Hint: "start it, or remove it"}})
		}, "voter_missing"},
		{"a learner is missing", func(v *cluster.View) {
			v.Members = append(v.Members, cluster.Member{ID: 9, Learner: true, Err: errDeadline()})
		}, ""},
		{"no leader", func(v *cluster.View) { v.Leader = 0 }, cluster.CauseNoLeader},
		{"two leaders", func(v *cluster.View) { v.Members[2].Status.Leader = 3 }, cluster.CauseNoLeader},
		{"lag at the limit", func(v *cluster.View) { v.Members[1].Status.AppliedIndex -= 5000 }, ""},
		{"lag above it", func(v *cluster.View) { v.Members[1].Status.AppliedIndex -= 5001 }, "lag"},
		{"the leader itself lags", func(v *cluster.View) { v.Members[0].Status.AppliedIndex -= 18204 }, "lag"},
	} {
		v := fakeView(1, three()...)
		tc.view(&v)
		err := refusal(v.Members[1], gates(v, v.Members[1], 5000))
		if tc.cause == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		errorsIs(t, err, fault.Refused, tc.cause)
		if !strings.Contains(err.Error(), "refused: gate") || fault.HintOf(err) == "" {
			t.Errorf("%s: %v (%s)", tc.name, err, fault.HintOf(err))
		}
		if strings.HasSuffix(tc.name, "as its error says") && fault.HintOf(err) != "start it, or remove it" {
			t.Errorf("%s: hint %q", tc.name, fault.HintOf(err))
		}
	}
}

func TestPlanRunsInOrder(t *testing.T) {
	for _, tc := range []struct {
		name    string
		leader  uint64
		members []fakeMember
		opts    func(*DefragOptions)
		want    []string
	}{
		{"followers first, then the leader", 1, three(), nil, []string{"defragment 2", "defragment 3", "move 1 to 2", "defragment 1"}},
		{"the leader alone", 1, three(), func(o *DefragOptions) { o.Members = []string{"c"} }, []string{"move 1 to 2", "defragment 1"}},
		{"two followers by name and ID", 1, three(), func(o *DefragOptions) { o.Members = []string{"3", "a", "3"} }, []string{"defragment 2", "defragment 3"}},
		{"a single member has nobody to move to", 1, three()[:1], nil, []string{"defragment 1"}},
		{"what gains nothing is left alone", 1, []fakeMember{{name: "a", size: 40, inUse: 10}, {name: "b", size: 100, inUse: 99}, {name: "c", size: 1, inUse: 1}},
			func(o *DefragOptions) { o.MinGain = 2 << 20 }, []string{"move 1 to 2", "defragment 1"}},
		{"leadership goes to the one that is done", 2, []fakeMember{{name: "a", size: 40, inUse: 10, lag: 5}, {name: "b", size: 40, inUse: 10}},
			nil, []string{"defragment 1", "move 2 to 1", "defragment 2"}},
		{"a rule decides alone", 1, []fakeMember{{name: "a", size: 60, inUse: 60}, {name: "b", size: 30, inUse: 1}},
			func(o *DefragOptions) { o.If, o.MinGain = "usage_ratio > 0.8", 0 }, []string{"move 1 to 2", "defragment 1"}},
		{"a rule and a gain", 1, []fakeMember{{name: "a", size: 60, inUse: 60}, {name: "b", size: 60, inUse: 1}, {name: "c", size: 30, inUse: 1}},
			func(o *DefragOptions) { o.If = "usage_ratio > 0.8" }, []string{"defragment 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := fast()
			if tc.opts != nil {
				tc.opts(&o)
			}
			f := &fakeCluster{view: fakeView(tc.leader, tc.members...)}
			p, err := newDefragmentation(f, o, progress.Discard).plan(t.Context(), f.view)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), nil, progress.Discard)
			if err != nil || r.Outcome != plan.OutcomeDone {
				t.Fatalf("%s: %v", r.Outcome, err)
			}
			if !slices.Equal(f.calls, tc.want) {
				t.Errorf("did %v, want %v", f.calls, tc.want)
			}
			for _, s := range r.Steps {
				if s.Action == "defragment" && s.State == plan.Done && *s.AfterBytes > *s.BeforeBytes {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// C24: a cluster full of live data has nothing to gain, whatever a rule says of
// its quota. To defragment it would stall every member for a few pages.
func TestARuleDoesNotMakeAGain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		size, inUse int64
		rule        string
		skipped     bool
	}{
		{60, 60, "usage_ratio > 0.8", true},
		{60, 60, "dbQuotaUsage > 0.8 || dbSizeFree > 200*1024*1024", true},
		{60, 59, "usage_ratio > 0.8", false}, // 1 MiB, the least that is a gain
		{600, 595, "db_size > 100 * MiB", true},
		{600, 594, "db_size > 100 * MiB", false}, // 1 %
	} {
		f := &fakeCluster{view: fakeView(1, fakeMember{name: "a", size: tc.size, inUse: tc.inUse})}
		o := fast()
		o.If = tc.rule
		p, err := newDefragmentation(f, o, progress.Discard).plan(t.Context(), f.view)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Steps[0]; (got.State == plan.Skipped) != tc.skipped || (tc.skipped && !strings.Contains(got.Reason, "--min-gain")) {
			t.Errorf("%d of %d MiB in use, %s: %s %q", tc.inUse, tc.size, tc.rule, got.State, got.Reason)
		}
	}
}

// An election between the plan and a member's turn makes that member the leader.
func TestAnElectionInBetween(t *testing.T) {
	t.Parallel()
	for _, newLeader := range []uint64{2, 3} {
		f := &fakeCluster{view: fakeView(1, three()...)}
		p, err := newDefragmentation(f, fast(), progress.Discard).plan(t.Context(), f.view)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.MoveLeader(t.Context(), 1, newLeader)
		f.calls = nil
		r, err := p.Run(t.Context(), nil, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		leads := newLeader
		for _, c := range f.calls {
			var from, to, id uint64
			if n, _ := fmt.Sscanf(c, "move %d to %d", &from, &to); n == 2 {
				leads = to
			}
			if n, _ := fmt.Sscanf(c, "defragment %d", &id); n == 1 && id == leads {
				t.Errorf("member %d was defragmented while it led: %v", id, f.calls)
			}
		}
		if r.Outcome != plan.OutcomeDone {
			t.Errorf("%s: %v", r.Outcome, f.calls)
		}
	}
}

func TestAMemberThatIsRemovedInBetweenIsSkipped(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]int{"whose turn is to come": 3, "whose turn was": 2} {
		f := &fakeCluster{view: fakeView(1, three()...)}
		f.defragment = func(id uint64) error {
			f.shrink(id)
			if id == 2 {
				f.removed = uint64(gone)
			}
			return nil
		}
		p, err := newDefragmentation(f, fast(), progress.Discard).plan(t.Context(), f.view)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Run(t.Context(), nil, progress.Discard)
		if err != nil || r.Outcome != plan.OutcomeDone {
			t.Errorf("%s: %s, %v", name, r.Outcome, err)
		}
		for _, s := range r.Steps {
			if want := gone == 3 && s.Subject == f.member(3).Label(); (s.State == plan.Skipped) != want || (want && s.Reason != removedSince) {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

func TestFirstFailureStopsUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		goOn  bool
		calls int
		kind  fault.Kind
	}{{false, 1, fault.Unavailable}, {true, 4, fault.Partial}} {
		o := fast()
		o.ContinueOnError = tc.goOn
		f := &fakeCluster{view: fakeView(1, three()...)}
		f.defragment = func(id uint64) error {
			if id == 2 {
				return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseRejected, Msg: "no space left on device"}
			}
			return nil
		}
		p, err := newDefragmentation(f, o, progress.Discard).plan(t.Context(), f.view)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Run(t.Context(), nil, progress.Discard)
		if fault.KindOf(err) != tc.kind || len(f.calls) != tc.calls || r.Steps[0].State != plan.Failed {
			t.Errorf("go on %v: %v, calls %v, %+v", tc.goOn, err, f.calls, r.Steps)
		}
		if s := r.Steps[0]; !strings.Contains(s.Reason, "unchanged at 40") || *s.AfterBytes != 40<<20 {
			t.Errorf("a failed copy leaves the file: %+v", s)
		}
	}
}

func TestNothingStartsWhileOneIsInFlight(t *testing.T) {
	t.Parallel()
	for _, busy := range []uint64{1, 2, 3} {
		f := &fakeCluster{view: fakeView(1, three()...)}
		f.metrics = func(id uint64) (string, error) {
			if id == busy {
				return defragMetrics(1, 0, 0, 1), nil
			}
			return "", errUnreachable()
		}
		p, err := newDefragmentation(f, fast(), progress.Discard).plan(t.Context(), f.view)
		if err != nil {
			t.Fatal(err)
		}
		errorsIs(t, p.Check(t.Context()), fault.Refused, "defrag_inflight")
		_, err = p.Run(t.Context(), nil, progress.Discard)
		errorsIs(t, err, fault.Refused, "defrag_inflight")
		if len(f.calls) > 0 {
			t.Errorf("did %v", f.calls)
		}
	}
}

// TestNothingStartsWhileOneWaitsForItsTurn: of several that ask one member at once, as
// from a cron job on each host, the gauge knows the one that is at work, and is 0 in the
// moment between two.
func TestNothingStartsWhileOneWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	counters := func(started, handled int) string {
		return defragMetrics(0, handled, 1, 1) + fmt.Sprintf("# TYPE grpc_server_started_total counter\n"+
			"grpc_server_started_total{grpc_method=\"Defragment\",grpc_service=\"etcdserverpb.Maintenance\",grpc_type=\"unary\"} %d\n"+
			"# TYPE grpc_server_handled_total counter\n"+
			"grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Defragment\",grpc_service=\"etcdserverpb.Maintenance\",grpc_type=\"unary\"} %d\n"+
			"grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Status\",grpc_service=\"etcdserverpb.Maintenance\",grpc_type=\"unary\"} 9\n", started, handled)
	}
	for handled, refused := range map[int]bool{1: true, 2: true, 3: false} {
		f := &fakeCluster{view: fakeView(1, three()...)}
		f.metrics = func(uint64) (string, error) { return counters(3, handled), nil }
		p, err := newDefragmentation(f, fast(), progress.Discard).plan(t.Context(), f.view)
		if err != nil {
			t.Fatal(err)
		}
		if err = p.Check(t.Context()); refused {
			errorsIs(t, err, fault.Refused, "defrag_inflight")
		} else if err != nil {
			t.Errorf("%d of 3 have ended: %v", handled, err)
		}
	}
}

// NOSPACE is no gate, and no reason either: members that gain are defragmented
// whether it is raised or not, the others are left alone. (Their sizes are
// counted anew before the plan is made, see trueSizes.)
func TestNoSpaceDecidesNothing(t *testing.T) {
	for _, raised := range []bool{true, false} {
		for inUse, want := range map[int64]int{20: 1, 63: 0} {
			f := &fakeCluster{view: fakeView(1, fakeMember{name: "a", size: 63, inUse: inUse})}
			if raised {
				f.view.Alarms = []cluster.Alarm{{MemberID: 1, Type: cluster.AlarmNoSpace}}
			}
			p, err := newDefragmentation(f, fast(), progress.Discard).plan(t.Context(), f.view)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Run(t.Context(), nil, progress.Discard); err != nil || len(f.calls) != want {
				t.Errorf("raised %v, in use %d: did %v, %v", raised, inUse, f.calls, err)
			}
		}
	}
}

func TestHooks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, before, after string
		calls               int
		states              []plan.State
		reason              string
		kind                fault.Kind
	}{
		{"both work", `sh -c 'test "$KVD_MEMBER_ID" = 2 && test "$KVD_DB_SIZE_BYTES" = 41943040'`, `sh -c 'test "$KVD_DB_SIZE_BYTES" = 10485760 && test "$KVD_DB_SIZE_BEFORE_BYTES" = 41943040'`, 1, []plan.State{plan.Done}, "gained 30", ""},
		{"both leave something running", "sh -c 'sleep 3 &'", "sh -c 'sleep 3 &'", 1, []plan.State{plan.Done}, "gained 30", ""},
		{"before fails", `sh -c 'echo no; echo not now >&2; exit 4'`, "false", 0, []plan.State{plan.Skipped}, "exit status 4: not now", fault.Refused},
		{"after fails", "true", "false", 1, []plan.State{plan.Failed}, "--after-member command", fault.Partial},
		{"before hangs", "sleep 30", "", 0, []plan.State{plan.Skipped}, "--hook-timeout", fault.Refused},
	} {
		o := fast()
		o.Members, o.BeforeMember, o.AfterMember, o.HookTimeout = []string{"a"}, tc.before, tc.after, 2*time.Second
		f := &fakeCluster{view: fakeView(1, three()...)}
		p, err := newDefragmentation(f, o, progress.Discard).plan(t.Context(), f.view)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Run(t.Context(), nil, progress.Discard)
		if fault.KindOf(err) != tc.kind {
			t.Errorf("%s: kind %q (%v), want %q", tc.name, fault.KindOf(err), err, tc.kind)
		}
		if len(f.calls) != tc.calls || r.Steps[0].State != tc.states[0] || !strings.Contains(r.Steps[0].Reason, tc.reason) {
			t.Errorf("%s: calls %v, %+v", tc.name, f.calls, r.Steps[0])
		}
	}
	for _, bad := range []string{"/no/such/program", "sh -c 'unclosed", `""`} {
		o := fast()
		o.AfterMember = bad
		f := &fakeCluster{view: fakeView(1, three()...)}
		_, err := newDefragmentation(f, o, progress.Discard).plan(t.Context(), f.view)
		errorsIs(t, err, fault.Usage, "hook")
	}
}

// What a command prints may be without end, and only its end is shown.
func TestOutputOfACommandIsBounded(t *testing.T) {
	t.Parallel()
	var out lastOutput
	for i := range 10000 {
		n, err := fmt.Fprintf(&out, "line %d%s\n", i, strings.Repeat(".", i%7000))
		if err != nil || n < i%7000 || len(out) > outputKept || cap(out) > 4*outputKept {
			t.Fatalf("wrote %d, %v; %d bytes are kept in %d", n, err, len(out), cap(out))
		}
	}
	if got := lastLine(string(out) + "last"); got != ": last" {
		t.Errorf("%q", got)
	}
	err := runHook(t.Context(), time.Minute, "--before-member", []string{"sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' '\\n'; echo at last; exit 3"}, nil)
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3: at last") {
		t.Error(err)
	}
}

// What a --start command leaves running ends with its first line of output, and
// whoever gave it is told.
func TestAStartThatLeavesItsOutputOpen(t *testing.T) {
	t.Parallel()
	open := []string{"sh", "-c", "sleep 3 &"}
	if err := runHook(t.Context(), time.Minute, "--start", open, nil); err == nil || !strings.Contains(err.Error(), "--start command sh has come back and left a process") {
		t.Errorf("%v", err)
	}
	if err := runHook(t.Context(), time.Minute, "--start", []string{"sh", "-c", "sleep 3 >/dev/null 2>&1 &"}, nil); err != nil {
		t.Error(err)
	}
}

// A pause between two members may be longer than a member may take to catch up.
func TestSettleMayBeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{view: fakeView(1, three()...)}
		o := fast()
		o.Settle = 20 * time.Minute
		d := newDefragmentation(f, o, progress.Discard)
		began := time.Now()
		d.last, d.dist = began, 2
		if err := d.settle(t.Context()); err != nil || time.Since(began) != o.Settle {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		f.member(2).Status.AppliedIndex -= 1000
		began = time.Now()
		d.last, d.dist = began, 2
		err := d.settle(t.Context())
		errorsIs(t, err, fault.Unavailable, "lag")
		if took := time.Since(began); took < 25*time.Minute || took > 26*time.Minute {
			t.Errorf("gave up after %s", took)
		}
	})
}

// A move that does not end says who keeps it from that.
func TestMoveNamesWhoDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{view: fakeView(1, three()...)}
		l := &leaderMove{c: f, sink: progress.Discard, op: "defrag"}
		from := *f.member(1)
		f.member(1).Status, f.member(1).Err = nil, errDeadline()
		f.view.Leader = 2
		f.member(2).Status.Leader, f.member(3).Status.Leader = 2, 2
		_, err := l.settled(t.Context(), from)
		errorsIs(t, err, fault.Unavailable, cluster.CauseNoLeader)
		if !strings.Contains(err.Error(), "within 30s: "+from.Label()+" does not answer") {
			t.Error(err)
		}
	})
}

// interloper is a cluster in which an election comes in between a move and its answer.
type interloper struct{ *fakeCluster }

func (i interloper) MoveLeader(ctx context.Context, from, _ uint64) error {
	_ = i.fakeCluster.MoveLeader(ctx, from, 3)
	return errDeadline()
}

// The leadership may go to another member than it was moved to, which is no
// success where that one was asked for.
func TestMoveTellsWhoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for to, cause := range map[uint64]string{0: "", 3: "", 2: "leader_elsewhere"} {
			f := interloper{&fakeCluster{view: fakeView(1, three()...)}}
			l := &leaderMove{c: f, sink: progress.Discard, op: "member move-leader", to: to}
			leads, err := l.away(t.Context(), f.view, *f.member(1))
			if fault.CauseOf(err) != cause || leads.ID != 3 {
				t.Errorf("to %d: %d leads, %v", to, leads.ID, err)
			}
		}
	})
}

// The leadership is moved when the next leader's disk is quick again.
func TestMoveWaitsForAQuickDisk(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		means []float64 // seconds per fsync in each look after the first; the last one stays
		looks int       // at the next leader's metrics before the move
	}{{[]float64{0.002}, 2}, {[]float64{0.2, 0.08, 0.004}, 4}, {nil, 1}} {
		f := &fakeCluster{view: fakeView(1, three()...)}
		looks, count, sum := 0, 0, 0.0
		f.metrics = func(id uint64) (string, error) {
			text := defragMetrics(0, 0, 0, 1)
			if id != 2 || tc.means == nil {
				return text, nil
			}
			looks++
			if looks > 1 {
				count += 10
				sum += 10 * tc.means[min(looks-2, len(tc.means)-1)]
			}
			return text + fmt.Sprintf("# TYPE %[1]s histogram\n%[1]s_bucket{le=\"+Inf\"} %[2]d\n%[1]s_sum %[3]g\n%[1]s_count %[2]d\n", metrics.WALFsync, count, sum), nil
		}
		d := &defragmentation{c: f, opts: fast(), sink: progress.Discard}
		if err := d.mover().waitCalm(t.Context(), f.view.Members[1]); err != nil {
			t.Fatal(err)
		}
		if tc.means != nil && looks != tc.looks {
			t.Errorf("%v: looked %d times, want %d", tc.means, looks, tc.looks)
		}
	}
}
