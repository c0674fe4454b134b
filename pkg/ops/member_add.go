package ops

import (
	"context"
	"fmt"
	"slices"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// AddOptions say which member to add, and how far to take it.
type AddOptions struct {
	JoinOptions
	Name      string
	PeerURLs  []string // where the others will reach it
	Voter     bool     // add it as a voter at once
	NoWait    bool     // only add it
	NoPromote bool     // wait until it has caught up, and leave it a learner
}

// DefaultAddOptions returns what `kvd member add` does when told nothing.
func DefaultAddOptions() AddOptions { return AddOptions{JoinOptions: DefaultJoinOptions()} }

// PlanMemberAdd plans to add a member as a learner, to wait until somebody (or
// the command in the options) has started it and it has caught up, and to promote
// it. Every step looks at the cluster, so that a run that was interrupted anywhere
// is finished by the next with the same options. The plan's Detail is a
// *MemberStart. Errors are *fault.Error: Usage for a wrong call, Refused by a
// guard, Unavailable without a quorum.
func PlanMemberAdd(client *cluster.Client, view cluster.View, o AddOptions, sink progress.Sink) (*plan.Plan, error) {
	c := &membership{client: client, sink: sink, op: "member add"}
	if o.Name == "" {
		return nil, c.usage("arguments", "the new member needs a name", "")
	}
	if err := view.VotersErr(c.op); err != nil {
		return nil, err
	}
	n := &newcomer{c: c, o: o.JoinOptions, name: o.Name, peerURLs: o.PeerURLs, voter: o.Voter}
	if err := n.prepare(view); err != nil {
		return nil, err
	}
	m, there := n.find(view.Members)
	if err := n.nameIsFree(view, m, there); err != nil {
		return nil, err
	}
	if there && !m.Learner && m.Started() && !m.Alive() {
		return nil, c.refused("voter_down", m.Label(), "is a voter that is down, and needs no adding",
			"start it with its own data dir; if that is lost: kvd member replace "+nameOrID(m))
	}
	if there {
		n.resumed = n.take([]cluster.Member{m})
		n.voter = n.voter && !m.Learner // one that was added as a learner is promoted like any other
	}
	if err := c.sound(view, 0); err != nil {
		return nil, err
	}
	p := &plan.Plan{Op: c.op, Notes: n.addNotes(view, m), Detail: n.start}
	guard := func(ctx context.Context) error {
		now, err := c.View(ctx)
		if err != nil {
			return err
		}
		if err := c.sound(now, 0); err != nil {
			return err
		}
		if err := c.notCorrupt(now, 0); err != nil {
			return err
		}
		return n.mayAdd(now, 0)
	}
	p.Steps = append(p.Steps, n.addStep(guard))
	if o.NoWait {
		return p, nil
	}
	p.Steps = append(p.Steps, n.startedStep(m), n.caughtUpStep())
	if !o.NoPromote && !n.voter {
		p.Steps = append(p.Steps, n.promoteStep(m))
	}
	p.Steps = append(p.Steps, n.verifyStep(!o.NoPromote || n.voter, 0))
	return p, nil
}

// nameIsFree refuses a name that a started member has: its start line would read
// the two as one member. The newcomer itself may be there from an earlier run.
func (n *newcomer) nameIsFree(view cluster.View, found cluster.Member, there bool) error {
	if there && found.Name != "" && found.Name != n.name {
		return n.c.refused(cluster.CausePeerURLExists, n.name, "the peer URL belongs to "+found.Label(), "give the new member a URL of its own")
	}
	i := slices.IndexFunc(view.Members, func(m cluster.Member) bool { return m.Name == n.name && (!there || m.ID != found.ID) })
	if i < 0 {
		return nil
	}
	return n.c.refused("name_exists", n.name, "a member has this name: "+view.Members[i].Label(),
		"take another name; to put a new member in its place: kvd member replace "+n.name)
}

// addNotes are what the reader must know before saying yes.
func (n *newcomer) addNotes(view cluster.View, m cluster.Member) []string {
	b, there := balanceOf(view), m.ID != 0
	var out []string
	switch {
	case there && !m.Learner:
	case n.voter:
		out = afterwards(b, b.plus(false))
		out = append(out, "a voter counts from the moment it is added; a learner does not: it costs nothing if it never starts")
	default:
		out = []string{fmt.Sprintf("now: %s; as a learner it changes nothing of that until it is promoted", b)}
		if p := b.plus(true).parity(); p != "" && !there {
			out = append(out, p)
		}
	}
	if s := schemes(view, n.peerURLs); s != "" {
		out = append(out, s)
	}
	if !there || !m.Started() {
		out = append(out, ownMachine(without(view, map[uint64]bool{m.ID: true}), n.name, n.peerURLs)...)
	}
	return append(out, n.notes(m)...)
}

// schemes says so where the new peer URLs are not of the kind that the others'
// are, which can't talk to each other.
func schemes(view cluster.View, urls []string) string {
	for _, m := range view.Members {
		for _, u := range m.PeerURLs {
			if schemeOf(u) != schemeOf(urls[0]) {
				return fmt.Sprintf("the new peer URL is %s, %s's is %s: with TLS on one side only they can't talk to each other", urls[0], m.Label(), u)
			}
		}
	}
	return ""
}

func schemeOf(u string) string {
	for i := range u {
		if u[i] == ':' {
			return u[:i]
		}
	}
	return ""
}
