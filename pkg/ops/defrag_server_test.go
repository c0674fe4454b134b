package ops_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// The tests in this file run defragmentations on real clusters.

// fragmented starts a cluster and leaves about live MiB in use and freed MiB
// free in every member's file. Nothing here asserts what survives a power cut, so
// the servers need not wait for the disk.
func fragmented(t *testing.T, o servertest.Options, live, freed int) *servertest.Cluster {
	t.Helper()
	o.Args = append(o.Args, "--unsafe-no-fsync")
	c := servertest.Start(t, o)
	fillFragmented(t, c, live, freed)
	return c
}

func fillFragmented(t *testing.T, c *servertest.Cluster, live, freed int) {
	t.Helper()
	cli := c.Client(t)
	rng := rand.New(rand.NewPCG(7, uint64(live)))
	value := make([]byte, 256<<10)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	put := func(prefix string, mib int) {
		for i := range mib * 4 {
			if _, err := cli.Put(t.Context(), fmt.Sprintf("%s/%05d", prefix, i), string(value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("live", live)
	put("freed", freed)
	del, err := cli.Delete(t.Context(), "freed/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cli.Compact(t.Context(), del.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	// The other members compact at their own pace, and pages count as free only
	// after the commit of a later write.
	deadline := time.Now().Add(20 * time.Second)
	for i := range c.Len() {
		for {
			st, err := cli.Status(t.Context(), c.Endpoint(i))
			if err == nil && st.DbSize-st.DbSizeInUse >= int64(freed)<<20*9/10 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s frees nothing: %+v %v", c.Name(i), st, err)
			}
			if _, err := cli.Put(t.Context(), "tick", ""); err != nil {
				t.Fatal(err)
			}
			<-time.After(150 * time.Millisecond)
		}
	}
}

// connect returns a client of the cluster and a view.
func connect(t *testing.T, c *servertest.Cluster) (*cluster.Client, cluster.View) {
	t.Helper()
	client, err := cluster.Connect(cluster.Config{Endpoints: c.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	view, err := client.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client, view
}

// quick are the options of the tests: no pause.
func quick() ops.DefragOptions {
	o := ops.DefaultDefragOptions()
	o.Settle = 0
	return o
}

func planned(t *testing.T, client *cluster.Client, view cluster.View, o ops.DefragOptions, sink progress.Sink) *plan.Plan {
	t.Helper()
	p, err := ops.PlanDefrag(t.Context(), client, view, o, sink)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// line is what a test compares of a step.
func lines(r plan.Report) []string {
	out := []string{}
	for _, s := range r.Steps {
		name, _, _ := strings.Cut(s.Subject, " ")
		out = append(out, fmt.Sprintf("%s %s %s", name, s.Action, s.State))
	}
	return out
}

// defrags reads how many defragmentations each member has completed.
func defrags(t *testing.T, c *servertest.Cluster) []uint64 {
	t.Helper()
	var out []uint64
	client, _ := cluster.Connect(cluster.Config{Endpoints: c.Endpoints()})
	defer client.Close()
	for i := range c.Len() {
		s, err := metrics.Fetch(t.Context(), client.HTTPClient(), c.MetricsURL(i))
		if err != nil {
			out = append(out, 99)
			continue
		}
		h, _ := s.Histogram(metrics.DefragDuration, nil)
		out = append(out, h.Count)
	}
	return out
}

func TestDefragRollsFollowersFirst(t *testing.T) { defragRollsFollowersFirst(t, sizes{3, 2, 8}) }

func TestDefragRollsFollowersFirst_more(t *testing.T) {
	defragRollsFollowersFirst(t, sizes{3, 8, 24}, sizes{1, 4, 16}, sizes{5, 2, 8})
}

type sizes struct{ members, live, freed int } // MiB

func defragRollsFollowersFirst(t *testing.T, cases ...sizes) {
	for _, tc := range cases {
		t.Run(fmt.Sprintf("%d members", tc.members), func(t *testing.T) {
			t.Parallel()
			c := fragmented(t, servertest.Options{Options: local.Options{Members: tc.members}, EqualContent: true}, tc.live, tc.freed)
			client, view := connect(t, c)
			leader := c.Leader(t)
			p := planned(t, client, view, quick(), progress.Discard)
			if err := p.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), nil, progress.Discard)
			if err != nil {
				t.Fatal(err, r)
			}
			var want []string
			for i := range tc.members {
				if i != leader {
					want = append(want, c.Name(i)+" defragment done")
				}
			}
			if tc.members > 1 {
				want = append(want, c.Name(leader)+" move leadership away done")
			}
			want = append(want, c.Name(leader)+" defragment done")
			if got := lines(r); !slices.Equal(got, want) {
				t.Errorf("steps %v, want %v", got, want)
			}
			for _, s := range r.Steps {
				if s.Action != "defragment" {
					continue
				}
				gained, most := *s.BeforeBytes-*s.AfterBytes, int64(tc.freed+4)<<20
				if gained < int64(tc.freed)<<20*8/10 || gained > most+16<<20 {
					t.Errorf("%s gained %d bytes of %d MiB free", s.Subject, gained, tc.freed)
				}
			}
			if tc.members > 1 && c.Leader(t) == leader {
				t.Errorf("%s still leads", c.Name(leader))
			}
			for i, n := range defrags(t, c) {
				if n != 1 {
					t.Errorf("%s was defragmented %d times", c.Name(i), n)
				}
			}
			// C24a: there is nothing to gain any more.
			again := planned(t, client, mustView(t, client), quick(), progress.Discard)
			if again.Pending() || again.Describe().Outcome != plan.OutcomeNothing {
				t.Errorf("a second run would do: %v", lines(again.Describe()))
			}
		})
	}
}

func mustView(t *testing.T, client *cluster.Client) cluster.View {
	t.Helper()
	v, err := client.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// C21: the client's timeout passes and the server goes on.
func TestDefragIsFollowedAfterATimeout(t *testing.T) {
	c := fragmented(t, servertest.Options{}, 64, 8)
	client, view := connect(t, c)
	for i, tc := range []struct {
		timeout time.Duration
		metrics string // where the metrics are looked for
	}{
		{20 * time.Millisecond, c.MetricsURL(0)},
		{100 * time.Millisecond, c.Endpoint(0)},
		{50 * time.Millisecond, "http://127.0.0.1:1"}, // nowhere: the status is followed
	} {
		t.Run(fmt.Sprintf("%s %s", tc.timeout, tc.metrics), func(t *testing.T) {
			o := quick()
			o.MinGain, o.Timeout, o.MetricsURLs = 0, tc.timeout, []string{c.Name(0) + "=" + tc.metrics}
			var mu sync.Mutex
			var warned []string
			sink := progress.Func(func(e progress.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Warning {
					warned = append(warned, e.Note)
				}
			})
			if i == 2 {
				fillFragmented(t, c, 64, 16) // without metrics, the size is what tells
				view = mustView(t, client)
			}
			r, err := planned(t, client, view, o, sink).Run(t.Context(), nil, sink)
			if err != nil {
				t.Fatal(err)
			}
			if got := lines(r); !slices.Equal(got, []string{"m1 defragment done"}) {
				t.Errorf("steps %v", got)
			}
			if s := r.Steps[0]; !strings.Contains(s.Reason, "followed until its own end") || s.TookSeconds <= tc.timeout.Seconds() {
				t.Errorf("%q took %.3f s: the timeout did not pass", s.Reason, s.TookSeconds)
			}
			if len(warned) != 1 || !strings.Contains(warned[0], "can't be cancelled") {
				t.Errorf("warnings %q", warned)
			}
			if got := defrags(t, c); got[0] != uint64(i+1) {
				t.Errorf("defragmented %d times after %d runs", got[0], i+1)
			}
			view = mustView(t, client)
			if s := view.Members[0].Status; s == nil || s.DBSize != *r.Steps[0].AfterBytes {
				t.Errorf("reported %d bytes, the member says %+v", *r.Steps[0].AfterBytes, s)
			}
		})
	}
}

// C22: a member dies after the first was done: the second is not touched.
func TestDefragStopsWhenAMemberIsLost(t *testing.T) {
	defragStopsWhenAMemberIsLost(t, loss{"the one just done, going on after errors", 3, func(o []string) string { return o[0] }, fault.Partial, true})
}

func TestDefragStopsWhenAMemberIsLost_more(t *testing.T) {
	defragStopsWhenAMemberIsLost(t,
		loss{"the one just done", 3, func(o []string) string { return o[0] }, fault.Partial, false},
		loss{"the next one", 3, func(o []string) string { return o[1] }, fault.Partial, false},
		loss{"the leader, of five", 5, func(o []string) string { return o[4] }, fault.Partial, false})
}

type loss struct {
	name    string
	members int
	victim  func(order []string) string // by the order of the plan
	kind    fault.Kind
	onError bool
}

func defragStopsWhenAMemberIsLost(t *testing.T, cases ...loss) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := fragmented(t, servertest.Options{Options: local.Options{Members: tc.members}}, 2, 8)
			client, view := connect(t, c)
			o := quick()
			o.ContinueOnError = tc.onError
			p := planned(t, client, view, o, progress.Discard)
			var order []string
			for _, s := range p.Steps {
				if s.Action == "defragment" {
					order = append(order, s.Subject)
				}
			}
			killed := false
			sink := progress.Func(func(e progress.Event) {
				if e.State == string(plan.Done) && e.Phase == "defragment" && !killed {
					killed = true
					name, _, _ := strings.Cut(tc.victim(order), " ")
					c.Kill(slices.IndexFunc([]int{0, 1, 2, 3, 4}[:tc.members], func(i int) bool { return c.Name(i) == name }))
				}
			})
			r, err := p.Run(t.Context(), nil, sink)
			if fault.KindOf(err) != tc.kind || r.Outcome != plan.OutcomePartial {
				t.Errorf("outcome %s, error %v", r.Outcome, err)
			}
			done := 0
			for _, s := range r.Steps {
				if s.State == plan.Done {
					done++
				}
			}
			if done != 1 || r.Steps[0].State != plan.Done || r.Steps[1].State != plan.Failed {
				t.Errorf("steps %v", lines(r))
			}
			var total uint64
			for i, n := range defrags(t, c) {
				if c.Running(i) {
					total += n
				}
			}
			if name, _, _ := strings.Cut(order[0], " "); total > 1 || (total == 0 && c.Running(slices.IndexFunc([]int{0, 1, 2, 3, 4}[:tc.members], func(i int) bool { return c.Name(i) == name }))) {
				t.Errorf("%d members that run were defragmented", total)
			}
		})
	}
}

// C25: a learner is skipped with a note.
func TestDefragSkipsLearners(t *testing.T)      { defragSkipsLearners(t, 1) }
func TestDefragSkipsLearners_more(t *testing.T) { defragSkipsLearners(t, 2, 3) }

func defragSkipsLearners(t *testing.T, voters ...int) {
	for _, members := range voters {
		t.Run(fmt.Sprintf("beside %d voters", members), func(t *testing.T) {
			t.Parallel()
			c := fragmented(t, servertest.Options{Options: local.Options{Members: members}}, 2, 8)
			i, err := c.Reserve()
			if err != nil {
				t.Fatal(err)
			}
			addLearner(t, c, i)
			client, view := connect(t, c)
			p := planned(t, client, view, quick(), progress.Discard)
			r, err := p.Run(t.Context(), nil, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if s := r.Steps[0]; s.State != plan.Skipped || !strings.Contains(s.Reason, "rpc not supported for learner") || !strings.HasPrefix(s.Subject, c.Name(i)) {
				t.Errorf("the learner's step is %+v", s)
			}
			if got := defrags(t, c); got[i] != 0 || slices.Min(got[:i]) != 1 || slices.Max(got[:i]) != 1 {
				t.Errorf("defragmented %v times", got)
			}
			if lead := c.Leader(t); lead == i {
				t.Error("the learner leads")
			}
		})
	}
}

func addLearner(t *testing.T, c *servertest.Cluster, i int) {
	t.Helper()
	// etcd refuses while it has not been connected to all members for 5 s.
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err := c.Client(t, c.Endpoint(0)).MemberAddAsLearner(t.Context(), []string{c.PeerURL(i)})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(500 * time.Millisecond)
	}
	if err := c.Launch(i); err != nil {
		t.Fatal(err)
	}
	cli := c.Client(t, c.Endpoint(i))
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		st, err := cli.Status(ctx, c.Endpoint(i))
		cancel()
		if err == nil && st.IsLearner && st.Leader != 0 {
			return
		}
		if time.Now().After(deadline.Add(20 * time.Second)) {
			t.Fatalf("the learner does not come up: %+v %v", st, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}
