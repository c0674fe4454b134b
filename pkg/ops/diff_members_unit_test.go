package ops

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/diff"
)

func TestJudgeHashes(t *testing.T) {
	hash := func(member string, hash uint32, compacted int64) MemberHash {
		return MemberHash{member, 10, compacted, hash}
	}
	for _, tc := range []struct {
		hashes []MemberHash
		same   bool
		says   string
	}{
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 7, 1), hash("m3", 7, 1)}, true, "all 3 members have the same hash, 00000007"},
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 8, 1), hash("m3", 7, 1)}, false, "m1, m3: 00000007 (the majority); m2: 00000008"},
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 8, 1), hash("m3", 9, 1)}, false, "do not guess"},
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 8, 1)}, false, "do not guess"}, // the third voter is down
		{[]MemberHash{hash("m1", 7, 1), hash("m2", 8, 4), hash("m3", 7, 4)}, false, "can't be compared"},
	} {
		got, same, differ := JudgeHashes(tc.hashes, 3)
		if same != tc.same || differ == (tc.same || strings.Contains(tc.says, "can't")) || !strings.Contains(got, tc.says) {
			t.Errorf("%v: %v, %q; want %q", tc.hashes, same, got, tc.says)
		}
	}
}

// Three of five agree on what neither of the two has that are compared: v1 has
// changed the value, v2 lost the key.
func TestJuryNeither(t *testing.T) {
	good, bad := &diff.State{ModRevision: 5, Value: []byte("v")}, &diff.State{ModRevision: 5, Value: []byte("w")}
	for _, tc := range []struct {
		voters   int
		a, b     *diff.State
		others   []*diff.State
		majority string
		alone    map[string]int
		says     string
	}{
		{5, bad, nil, []*diff.State{good, good, good}, "neither", map[string]int{"v1": 1, "v2": 1}, "v1 is in the minority in 1; v2 is in the minority in 1"},
		{5, bad, good, []*diff.State{nil, good, good}, "b", map[string]int{"v1": 1, "v3": 1}, "v3 is in the minority in 1"},
		{5, nil, good, []*diff.State{nil, nil, bad}, "a", map[string]int{"v2": 1, "v5": 1}, "v5 is in the minority in 1"},
		{5, bad, nil, []*diff.State{good, good}, "none", map[string]int{}, "do not guess"}, // the fifth is down
		{3, bad, good, nil, "none", map[string]int{}, "do not guess"},
	} {
		j := &Jury{names: [2]string{"v1", "v2"}, voters: tc.voters, alone: map[string]int{}, asked: 1, others: make([]cluster.Member, len(tc.others))}
		votes := []vote{{tc.a, []string{"v1"}}, {tc.b, []string{"v2"}}}
		for i, st := range tc.others {
			votes = cast(votes, st, fmt.Sprintf("v%d", i+3))
		}
		var e diff.Entry
		j.count(&e, votes)
		if e.Majority != tc.majority || !maps.Equal(j.alone, tc.alone) || !strings.Contains(j.Verdict(), tc.says) {
			t.Errorf("%+v: %q, %v, %s", tc, e.Majority, j.alone, j.Verdict())
		}
	}
}

// The member with the highest revision said 809 and then that 900 was committed.
func TestJudgeHeads(t *testing.T) {
	top := &head{rev: 809, committed: 900}
	for _, tc := range []struct {
		h          head
		lost, lags int
	}{
		{head{rev: 809}, 0, 0},
		{head{rev: 700, applied: 899, after: 809}, 0, 0}, // has caught up meanwhile
		{head{rev: 700, applied: 899, after: 800}, 0, 1},
		{head{rev: 808, applied: 900, after: 808}, 1, 0},
		{head{rev: 808, applied: 950, after: 812}, 0, 0}, // it may have, but nothing shows it
	} {
		got := judgeHeads([]*head{top, &tc.h}, top)
		if len(got.Lost) != tc.lost || len(got.Lags) != tc.lags || got.Pinned != tc.h.rev {
			t.Errorf("%+v: %+v", tc.h, got)
		}
	}
}
