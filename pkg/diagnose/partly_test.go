package diagnose_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
)

// checked finds a check that was made, and what it could not see.
func checked(t *testing.T, r diagnose.Report, name string) (diagnose.Result, []diagnose.NotLooked) {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c diagnose.Result) bool { return c.Check == name })
	if i < 0 {
		t.Fatalf("no check %q was made", name)
	}
	var not []diagnose.NotLooked
	for _, n := range r.NotLooked {
		if n.Check == name {
			not = append(not, n)
		}
	}
	return r.Checks[i], not
}

// A check of which a part could not be looked at is not good, however the rest was.
func TestLeasesPartly(t *testing.T) {
	for name, p := range map[string]struct {
		total, asked, keys int
		exact, partly      bool
	}{
		"all of them":                           {1, 1, 90000, false, false},
		"a part, of many keys":                  {51201, 64, 90000, false, true},
		"a part, of fewer keys than are much":   {51201, 64, 9000, false, false},
		"a part, and the leases of all keys":    {51201, 64, 90000, true, false},
		"a part, and nothing of what is stored": {51201, 64, -1, false, true},
	} {
		w := healthy()
		w.in.Leases.Total, w.in.Leases.Asked = p.total, make([]diagnose.LeaseLook, p.asked)
		if p.keys < 0 {
			w.in.Keys = nil
		} else {
			w.in.Keys.Keys, w.in.Keys.Exact = int64(p.keys), p.exact
		}
		c, not := checked(t, diagnose.Diagnose(w.input(t)), "keys on leases")
		if c.Partly != p.partly || (len(not) > 0) != p.partly {
			t.Errorf("%s: partly %v, not looked at %+v", name, c.Partly, not)
		}
	}
}

// Where a learner alone answers, nothing is said of the quorum nor of who lags.
func TestLearnerAlone(t *testing.T) {
	w := healthy()
	w.in.Keys, w.in.Lists, w.in.Leases = nil, nil, nil
	w.in.Missing = []diagnose.Missing{{Need: diagnose.NeedLeases, Why: "none answers", Hint: "see KVD-RAFT-001"}, {Need: diagnose.NeedKeys, Why: "no voter answers", Hint: "see KVD-NET-001"}}
	w.both(func(v *cluster.View) {
		v.Members = v.Members[:1]
		v.Members[0].Learner, v.Members[0].Status.Learner = true, true
		v.ListErr = errors.New("a learner tells it to nobody")
	})
	for id := uint64(2); id <= 3; id++ {
		delete(w.counters[0], id)
		delete(w.counters[1], id)
	}
	r := diagnose.Diagnose(w.input(t))
	if want := []string{"KVD-RAFT-006 info"}; !slices.Equal(got(r), want) {
		t.Errorf("findings %q, want %q", got(r), want)
	}
	for _, f := range r.Findings {
		if strings.Contains(f.Summary, "100") {
			t.Errorf("a learner alone is said to have caught up: %s", f.Summary)
		}
	}
	for _, name := range []string{"quorum", "lag", "endpoints", "unstarted members"} {
		c, not := checked(t, r, name)
		if !c.Partly || len(not) != 1 || not[0].Cause != cluster.CauseVotersUnknown {
			t.Errorf("%s: %+v, not looked at %+v", name, c, not)
		}
	}
	for _, n := range r.NotLooked {
		if strings.Contains(n.Hint, "KVD-") {
			t.Errorf("%s: the hint names a finding that is not there: %s", n.Check, n.Hint)
		}
	}
}

// Of a lost quorum the dead members come first, then what follows from them; and nobody is
// told to replace a member, which takes a quorum.
func TestLostQuorum(t *testing.T) {
	w := healthy()
	w.in.Keys, w.in.Leases = nil, nil
	w.down(2, refused("http://10.0.0.2:2379"))
	w.down(3, refused("http://10.0.0.3:2379"))
	w.both(func(v *cluster.View) { v.Leader = 0 })
	w.status(1, func(s *cluster.Status) { s.Leader = 0 })
	r := diagnose.Diagnose(w.input(t))
	var order []string
	for _, f := range r.Findings {
		order = append(order, f.ID)
		for _, s := range f.Next {
			if strings.HasPrefix(s.Command, "kvd member replace") || strings.HasPrefix(s.Command, "kvd snapshot restore") {
				t.Errorf("%s advises %q", f.ID, s.Line())
			}
		}
	}
	if want := []string{"KVD-NET-001", "KVD-NET-001", "KVD-RAFT-002", "KVD-RAFT-001"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	f := finding(t, r, "KVD-RAFT-002")
	mentions(t, strings.Join(f.Remedy, "\n"), "start m2 and m3 again")
	mentions(t, strings.Join(f.Remedy, "\n"), "that of m1")
	if by := finding(t, r, "KVD-RAFT-001").ExplainedBy; !slices.Equal(by, []string{"KVD-NET-001", "KVD-RAFT-002"}) {
		t.Errorf("KVD-RAFT-001 is explained by %q", by)
	}
}

// What a silent member costs is said as it is.
func TestWhySilent(t *testing.T) {
	const voter = "one failure less is survived"
	for name, p := range map[string]struct {
		change func(*world)
		why    string
	}{
		"a voter": {func(w *world) { w.down(3, refused("http://10.0.0.3:2379")) }, voter},
		"a learner": {func(w *world) {
			w.fourth(func(m *cluster.Member) { m.Learner, m.Status, m.Err = true, nil, refused("http://10.0.0.4:2379") })
		}, "a learner does not vote"},
		"an endpoint of nobody": {func(w *world) {
			w.both(func(v *cluster.View) {
				v.Unreached = []cluster.EndpointError{{Endpoint: "http://10.0.0.1:2397", Err: refused("http://10.0.0.1:2397")}}
			})
		}, "every member answers elsewhere"},
		"with the quorum": {func(w *world) {
			w.down(2, refused("http://10.0.0.2:2379"))
			w.down(3, refused("http://10.0.0.3:2379"))
		}, "too few voters are left"},
	} {
		w := healthy()
		p.change(w)
		f := finding(t, diagnose.Diagnose(w.input(t)), "KVD-NET-001")
		if !strings.Contains(f.Why, p.why) || p.why != voter && strings.Contains(f.Why, voter) {
			t.Errorf("%s: why it matters is %q, want %q", name, f.Why, p.why)
		}
	}
}
