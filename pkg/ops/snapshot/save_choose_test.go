package snapshot

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// seen is one member of a recorded view.
type seen struct {
	name    string
	applied uint64
	load    time.Duration
	used    float64 // part of the quota; 0: it does not tell
	learner bool
	down    bool
	corrupt bool
}

func viewOf(leader uint64, members []seen) (cluster.View, map[uint64]time.Duration) {
	v, load := cluster.View{Leader: leader}, map[uint64]time.Duration{}
	for i, s := range members {
		m := cluster.Member{ID: uint64(i + 1), Name: s.name, Endpoint: "http://192.0.2.1:2379", Learner: s.learner}
		if s.down {
			m.Err = &fault.Error{Kind: fault.Unavailable, Msg: "nobody listens"}
		} else {
			m.Status = &cluster.Status{AppliedIndex: s.applied, DBSize: int64(s.used * 1000), Quota: 1000, QuotaKnown: s.used > 0}
			load[m.ID] = s.load
		}
		if s.corrupt {
			v.Alarms = append(v.Alarms, cluster.Alarm{MemberID: m.ID, Type: cluster.AlarmCorrupt})
		}
		v.Members = append(v.Members, m)
	}
	return v, load
}

func TestChoose(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		members []seen // m1, m2, …; m1 leads
		o       SaveOptions
		want    string // in this order
		passed  string // members passed over, with a word of the reason
		kind    fault.Kind
		cause   string
	}{
		"the follower that answers first": {members: []seen{{applied: 5000, load: ms}, {applied: 5000, load: 3 * ms}, {applied: 4990, load: 2 * ms}}, want: "m3 m2 m1"},
		"by name where all are alike":     {members: []seen{{applied: 9}, {applied: 9}, {applied: 9}}, want: "m2 m3 m1"},
		"the leader alone":                {members: []seen{{applied: 5000}}, want: "m1"},
		"one lags":                        {members: []seen{{applied: 5000}, {applied: 3999}, {applied: 4000, load: 9 * ms}}, want: "m3 m1", passed: "m2: 1001 entries"},
		"all followers lag or are down": {members: []seen{{applied: 5000}, {applied: 100}, {down: true}}, want: "m1",
			passed: "m2: 4900 entries, m3: nobody listens"},
		"the furthest is no leader":      {members: []seen{{applied: 100}, {applied: 5000}, {applied: 4900}}, want: "m2 m3", passed: "m1: 4900 entries"},
		"a learner":                      {members: []seen{{applied: 5000}, {applied: 5000, learner: true}}, want: "m1", passed: "m2: a learner"},
		"a corrupt one":                  {members: []seen{{applied: 5000}, {applied: 5000, corrupt: true}, {applied: 5000}}, want: "m3 m1", passed: "m2: a CORRUPT"},
		"one near its quota":             {members: []seen{{applied: 5, used: .5}, {applied: 5, used: .91}, {applied: 5, used: .9}}, want: "m3 m1", passed: "m2: its file has 91 %"},
		"all near it":                    {members: []seen{{applied: 5, used: .99}, {applied: 5, used: .91}, {down: true}}, passed: "m1: its, m2: its, m3: nobody", kind: fault.Refused, cause: "near_quota"},
		"all near it, by force":          {members: []seen{{applied: 5, used: .99}, {applied: 5, used: .91}}, o: SaveOptions{Force: true}, want: "m2 m1"},
		"all down":                       {members: []seen{{down: true}, {down: true}}, passed: "m1: nobody, m2: nobody", kind: fault.Unavailable, cause: "no_member"},
		"only a learner answers":         {members: []seen{{down: true}, {applied: 5, learner: true}}, passed: "m1: nobody, m2: a learner", kind: fault.Refused, cause: "no_member"},
		"the furthest, without a quorum": {members: []seen{{down: true}, {applied: 5, load: ms}, {applied: 7, load: 9 * ms}}, o: SaveOptions{WithoutQuorum: true}, want: "m3 m2", passed: "m1: nobody"},
		"a learner is left":              {members: []seen{{down: true}, {applied: 5, learner: true}}, o: SaveOptions{WithoutQuorum: true}, want: "m2", passed: "m1: nobody"},
		"a learner is as far":            {members: []seen{{down: true}, {applied: 7, learner: true, load: ms}, {applied: 7, load: 2 * ms}}, o: SaveOptions{WithoutQuorum: true}, want: "m3 m2", passed: "m1: nobody"},
		"a learner is further":           {members: []seen{{applied: 7}, {applied: 9, learner: true}, {applied: 8}}, o: SaveOptions{WithoutQuorum: true}, want: "m2 m3 m1"},
		"named: a learner that lags":     {members: []seen{{applied: 5000}, {applied: 1, learner: true}}, o: SaveOptions{Member: "m2"}, want: "m2"},
		"named: the leader":              {members: []seen{{applied: 5000}, {applied: 5000}}, o: SaveOptions{Member: "1"}, want: "m1"},
		"named: down":                    {members: []seen{{applied: 5000}, {down: true}}, o: SaveOptions{Member: "m2"}, kind: fault.Unavailable},
		"named: near its quota":          {members: []seen{{applied: 5, used: .95}}, o: SaveOptions{Member: "m1"}, kind: fault.Refused, cause: "near_quota"},
		"named: nobody":                  {members: []seen{{applied: 5}}, o: SaveOptions{Member: "m9"}, kind: fault.Usage, cause: cluster.CauseMemberNotFound},
	} {
		for i := range tc.members {
			tc.members[i].name = "m" + string(rune('1'+i))
		}
		v, load := viewOf(1, tc.members)
		tc.o.MaxLag = DefaultSaveOptions().MaxLag
		ranked, passed, err := choose(v, load, tc.o)
		var got []string
		for _, c := range ranked {
			got = append(got, c.Name)
			if c.why == "" {
				t.Errorf("%s: %s without a reason", name, c.Name)
			}
		}
		if strings.Join(got, " ") != tc.want || fault.KindOf(err) != tc.kind || fault.CauseOf(err) != tc.cause {
			t.Errorf("%s: %v, %v; want %q, %s %s", name, got, err, tc.want, tc.kind, tc.cause)
		}
		want := strings.Split(tc.passed, ", ")
		if tc.passed == "" {
			want = nil
		}
		if len(passed) != len(want) {
			t.Errorf("%s: passed over %v, want %q", name, passed, tc.passed)
			continue
		}
		for i, p := range passed {
			member, reason, _ := strings.Cut(want[i], ": ")
			if !strings.HasPrefix(p.Member, member) || !strings.HasPrefix(p.Reason, reason) {
				t.Errorf("%s: passed over %v, want %q", name, p, want[i])
			}
		}
	}
}
