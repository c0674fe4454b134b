package ops

import (
	"fmt"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// balance is what decides whether a cluster can commit anything: how many vote,
// and how many of those are alive.
type balance struct{ voters, alive int }

// balanceOf counts. A voter that was never started votes and is not alive.
func balanceOf(view cluster.View) balance {
	return balance{voters: len(view.Voters()), alive: view.VotersAlive()}
}

func (b balance) quorum() int    { return b.voters/2 + 1 }
func (b balance) tolerated() int { return max(0, b.alive-b.quorum()) }
func (b balance) lost() bool     { return b.alive < b.quorum() }

// plus is the balance with one voter more, minus with one less.
func (b balance) plus(alive bool) balance  { return b.change(1, alive) }
func (b balance) minus(alive bool) balance { return b.change(-1, alive) }

func (b balance) change(n int, alive bool) balance {
	b.voters += n
	if alive {
		b.alive += n
	}
	return b
}

func (b balance) String() string {
	return fmt.Sprintf("%d of %s alive, quorum %d, %s tolerated", b.alive, counted(b.voters, "voter"), b.quorum(), counted(b.tolerated(), "more failure"))
}

// parity is a hint, no error: an even number of voters bears no more failures
// than the odd one below it.
func (b balance) parity() string {
	if b.voters%2 == 1 || b.voters == 0 {
		return ""
	}
	return fmt.Sprintf("%d voters bear no more failures than %d: an odd number is better", b.voters, b.voters-1)
}

// afterwards describes what a change does to the quorum.
func afterwards(before, after balance) []string {
	notes := []string{fmt.Sprintf("now: %s; afterwards: %s", before, after)}
	if p := after.parity(); p != "" {
		notes = append(notes, p)
	}
	return notes
}

// keepsQuorum refuses a change after which too few voters are alive.
func (c *membership) keepsQuorum(subject, what string, after balance, hint string) error {
	switch {
	case after.voters == 0:
		return c.refused("last_voter", subject, what+" would leave no voter at all",
			"add another member first (kvd member add), or give the new one --peer-urls of its own (kvd member replace)")
	case after.lost():
		return c.refused("quorum", subject, fmt.Sprintf("%s would cost the quorum: %d of %s would be alive, and it takes %d",
			what, after.alive, counted(after.voters, "voter"), after.quorum()), hint)
	}
	return nil
}

// sound refuses where the cluster can't decide anything, or does not know who
// leads it. except is left out of account: the member that is to go.
func (c *membership) sound(view cluster.View, except uint64) error {
	if err := view.VotersErr(c.op); err != nil {
		return err
	}
	if lost := QuorumLost(view); lost != "" || view.Leader == 0 {
		return c.noQuorum(view, lost)
	}
	rest := without(view, map[uint64]bool{except: true})
	if g := leaderGate(rest); g.refuse != "" && view.Leader != except {
		return c.refused(g.cause, "", g.refuse, g.hint)
	}
	return nil
}

// notCorrupt refuses to build on data that members disagree on. The member that
// is to go may be the corrupt one.
func (c *membership) notCorrupt(view cluster.View, except uint64) error {
	for _, a := range view.Alarms {
		if a.Type == cluster.AlarmCorrupt && a.MemberID != except && a.InMemberList {
			return c.refused(cluster.CauseCorrupt, alarmOwner(a), "CORRUPT is raised by it: a new member would get its data from whoever leads, right or wrong",
				"find out which members agree, and replace the one that does not; `kvd alarm list` shows who says what")
		}
	}
	return nil
}

// noQuorum says what can still be done where nothing can be decided.
func (c *membership) noQuorum(view cluster.View, lost string) error {
	if lost == "" {
		lost = "no member knows a leader: the voters don't reach each other, or an election is under way"
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoQuorum, Op: c.op,
		Msg: lost + "; nothing can be decided: no change of the members, not even the removal of a dead one, and no leader", Hint: WaysOut(view)}
}
