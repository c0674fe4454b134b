package ops

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

const (
	movePoll   = 100 * time.Millisecond
	moveLimit  = 30 * time.Second
	moveStable = 10 // how many polls in a row must show the new leader at every voter
	moveLag    = 10 // entries that the next leader may have to apply when it is chosen
)

// leaderCluster is what moving the leadership asks of a cluster.
type leaderCluster interface {
	View(ctx context.Context) (cluster.View, error)
	MoveLeader(ctx context.Context, from, to uint64) error
	Metrics(ctx context.Context, m cluster.Member) (*metrics.Sample, error)
}

// leaderMove moves the leadership for an operation.
type leaderMove struct {
	c      leaderCluster
	sink   progress.Sink
	op     string
	rather map[uint64]bool // members that get it only if there is no other
	to     uint64          // the member that gets it; 0: the best
	absent map[uint64]bool // voters that are down and need not learn of it
}

// away moves the leadership from one member to the best of the others and waits
// until every voter has known the new leader for a second. It returns who leads
// then: an election in between may have made another one the leader, which is an
// error where one was asked for.
func (l *leaderMove) away(ctx context.Context, view cluster.View, from cluster.Member) (cluster.Member, error) {
	next, err := l.chooseNext(ctx, view)
	if err != nil {
		return next, err
	}
	if err := l.waitCalm(ctx, next); err != nil {
		return next, err
	}
	l.sink.Event(progress.Event{Op: l.op, Subject: from.Label(), Phase: "moving leadership", Note: "to " + next.Label()})
	if err := l.c.MoveLeader(ctx, from.ID, next.ID); err != nil && !uncertain(err) {
		return next, err
	}
	leads, err := l.settled(ctx, from)
	if err == nil && l.to != 0 && leads.ID != l.to {
		err = &fault.Error{Kind: fault.Unavailable, Cause: "leader_elsewhere", Op: l.op, Subject: next.Label(),
			Msg: "the leadership went to " + leads.Label() + " instead, in an election that came in between", Hint: "run the same again"}
	}
	return leads, err
}

// next is whom the leadership goes to in this view.
func (l *leaderMove) next(view cluster.View) (cluster.Member, bool) {
	if l.to == 0 {
		return nextLeader(view, l.rather)
	}
	m, ok := view.MemberByID(l.to)
	return m, ok && m.Status != nil && !m.Learner
}

// chooseNext waits a moment for the successor to have applied everything: until
// it has, the leader refuses new writes while it waits for it.
func (l *leaderMove) chooseNext(ctx context.Context, view cluster.View) (cluster.Member, error) {
	for limit := time.Now().Add(moveLimit); ; {
		next, ok := l.next(view)
		if ok && view.Lag(next) <= moveLag {
			return next, nil
		}
		if !ok || time.Now().After(limit) {
			return next, &fault.Error{Kind: fault.Refused, Cause: "no_successor", Op: l.op, Subject: "move leadership",
				Msg: "no voter is caught up enough to lead", Hint: "wait until the voters have applied what is committed"}
		}
		if err := wait.For(ctx, movePoll); err != nil {
			return next, err
		}
		var err error
		if view, err = l.c.View(ctx); err != nil {
			return next, err
		}
	}
}

// settled waits until every voter takes the same other member for the leader,
// several times in a row, and returns that one.
func (l *leaderMove) settled(ctx context.Context, from cluster.Member) (cluster.Member, error) {
	same, why := 0, ""
	var leader uint64
	for limit := time.Now().Add(moveLimit); ; {
		view, err := l.c.View(ctx)
		switch {
		case err != nil:
			same, why = 0, fault.Why(err)
		case view.Leader == from.ID:
			same, why = 0, "it is the leader still"
		case leaderGate(view).refuse != "" || votersGate(without(view, l.absent)).refuse != "":
			same, why = 0, cmp.Or(votersGate(without(view, l.absent)).refuse, leaderGate(view).refuse)
		case view.Leader != leader:
			leader, same = view.Leader, 1
		default:
			same++
		}
		if same >= moveStable {
			leads, ok := view.LeaderMember()
			if !ok {
				leads.ID = leader
			}
			return leads, nil
		}
		if time.Now().After(limit) {
			return from, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoLeader, Op: l.op, Subject: from.Label(),
				Msg:  fmt.Sprintf("no new leader that every voter knows within %s: %s", moveLimit, why),
				Hint: "nothing was done after it; look at `kvd status` and at the voters' logs, then run the same again"}
		}
		if err := wait.For(ctx, movePoll); err != nil {
			return from, err
		}
	}
}

// without leaves members out of a view.
func without(view cluster.View, ids map[uint64]bool) cluster.View {
	var kept []cluster.Member
	for _, m := range view.Members {
		if !ids[m.ID] {
			kept = append(kept, m)
		}
	}
	view.Members = kept
	return view
}
