package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/wait"
)

// Heads is what the members that answer say of their revisions.
type Heads struct {
	// Pinned is a revision that all of them can be read at: the lowest that one of
	// them is at.
	Pinned int64
	// Lost names each member that has applied all of the log that brought another
	// to a higher revision, and is not there itself: its history is another one.
	Lost []string
	// Lags names each member that is behind and has not applied as much, for which
	// nothing can be told.
	Lags []string
}

// head is what is known of one member. What was asked first stands first, which is
// what makes a comparison of two members true, however much is written meanwhile.
type head struct {
	member    cluster.Member
	client    *cluster.MemberClient
	rev       int64  // its revision
	committed uint64 // as it said after that: what brought it there is not behind this
	applied   uint64 // as it said then
	after     int64  // its revision after that: 0 where nobody asked
}

// headPatience is how long members that are behind may take to apply what another
// one has applied.
const headPatience = 5 * time.Second

// ReadHeads asks every member that answers for its revision, and for those that are
// behind finds out whether they lag or have lost something.
//
// A revision follows from how much of the log was applied, so that a member which
// has applied as much as another had, and has a lower revision, does not have the
// same history.
func ReadHeads(ctx context.Context, client *cluster.Client, view cluster.View) (Heads, error) {
	var heads []*head
	var oldest int64
	for _, m := range view.Readers() {
		mc, err := client.Member(m.ID)
		if err != nil {
			return Heads{}, err
		}
		b, err := keyspace.OpenLive(mc, keyspace.LiveOptions{Op: opDiff}).Bounds(ctx)
		if err != nil {
			return Heads{}, err
		}
		st, err := mc.Status(ctx)
		if err != nil {
			return Heads{}, err
		}
		oldest = max(oldest, b.Oldest)
		heads = append(heads, &head{member: m, client: mc, rev: b.Head, committed: st.RaftIndex})
	}
	if len(heads) == 0 {
		return Heads{}, fault.New(fault.Unavailable, "no member answers")
	}
	lowest := slices.MinFunc(heads, func(a, b *head) int { return cmp.Compare(a.rev, b.rev) })
	if lowest.rev < oldest {
		return Heads{}, &fault.Error{Kind: fault.Unavailable, Cause: "no_common_revision", Op: opDiff,
			Msg:  fmt.Sprintf("a member is at revision %d, and another has compacted up to %d: no revision can be read from both", lowest.rev, oldest),
			Hint: "wait until the first has caught up (`kvd status`)"}
	}
	top := slices.MaxFunc(heads, func(a, b *head) int { return cmp.Compare(a.rev, b.rev) })
	for _, h := range heads {
		if h.rev == top.rev {
			continue
		}
		if err := h.catchUp(ctx, top.committed); err != nil {
			return Heads{}, err
		}
	}
	return judgeHeads(heads, top), nil
}

// catchUp waits until the member has applied the log up to an index, for a while,
// and then asks for its revision.
func (h *head) catchUp(ctx context.Context, index uint64) error {
	for until := time.Now().Add(headPatience); ; {
		st, err := h.client.Status(ctx)
		if err != nil {
			return err
		}
		if h.applied = st.AppliedIndex; h.applied >= index || time.Now().After(until) {
			break
		}
		if err := wait.For(ctx, settlePoll); err != nil {
			return err
		}
	}
	b, err := keyspace.OpenLive(h.client, keyspace.LiveOptions{Op: opDiff}).Bounds(ctx)
	h.after = b.Head
	return err
}

// judgeHeads tells who is behind the member with the highest revision, and why.
func judgeHeads(heads []*head, top *head) Heads {
	out := Heads{Pinned: top.rev}
	for _, h := range heads {
		out.Pinned = min(out.Pinned, h.rev)
		switch {
		case h.rev == top.rev || h.after >= top.rev:
		case h.applied >= top.committed:
			out.Lost = append(out.Lost, fmt.Sprintf("%s is at revision %d although it has applied all of the log (up to index %d) that brought %s to revision %d",
				h.member.Label(), h.after, top.committed, top.member.Label(), top.rev))
		default:
			out.Lags = append(out.Lags, fmt.Sprintf("%s is at revision %d and %s at %d: it lags, having applied %d of %d entries of the log. What it has yet to apply is not compared",
				h.member.Label(), h.after, top.member.Label(), top.rev, h.applied, top.committed))
		}
	}
	return out
}
