package ops

import (
	"cmp"
	"slices"

	"kvd/pkg/ops/cluster"
)

// DefragOrder decides the order in which members are defragmented: learners
// (which are only reported), then followers by name, and the leader last.
//
// A member that defragments answers nobody. Where that is the leader, no lease
// is renewed and no read that needs the leader's applied state is served, so it
// comes when every other member is done, and after it gave its leadership away.
func DefragOrder(view cluster.View, members []cluster.Member) []cluster.Member {
	out := slices.Clone(members)
	rank := func(m cluster.Member) int {
		switch {
		case m.Learner:
			return 0
		case m.ID == view.Leader:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b cluster.Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// nextLeader decides who gets the leadership: a voter that answers, rather one
// that need not be defragmented any more (else the leadership would soon have to
// move again), and among those the one that has applied most. Never a learner.
func nextLeader(view cluster.View, todo map[uint64]bool) (cluster.Member, bool) {
	var able []cluster.Member
	for _, m := range view.Voters() {
		if m.Status != nil && m.ID != view.Leader {
			able = append(able, m)
		}
	}
	if len(able) == 0 {
		return cluster.Member{}, false
	}
	return slices.MinFunc(able, func(a, b cluster.Member) int {
		return cmp.Or(cmpBool(todo[a.ID], todo[b.ID]),
			cmp.Compare(b.Status.AppliedIndex, a.Status.AppliedIndex), cmp.Compare(a.Name, b.Name))
	}), true
}

// cmpBool sorts false before true.
func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
