package ops

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// UpdateOptions say which member gets which peer URLs.
type UpdateOptions struct {
	Member   string        // name or hexadecimal ID
	PeerURLs []string      // where the others are to reach it
	NoWait   bool          // only tell the cluster
	Timeout  time.Duration // for it to be reached there; 0: no limit
}

// DefaultUpdateOptions returns what `kvd member update` does when told nothing.
func DefaultUpdateOptions() UpdateOptions {
	return UpdateOptions{Timeout: DefaultJoinOptions().Timeout}
}

// MemberUpdate is the detail of a plan for other peer URLs.
type MemberUpdate struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Before   []string `json:"peer_urls_before"`
	PeerURLs []string `json:"peer_urls"`
	Listen   []string `json:"listen_peer_urls"` // what its own --listen-peer-urls is to be
}

// relocation is a member that gets other peer URLs.
type relocation struct {
	c       *membership
	m       cluster.Member
	urls    []string
	timeout time.Duration
	arrived arrival
}

// PlanMemberUpdate plans to give a member other peer URLs: tell the cluster, wait
// until the others reach the member there, verify. It keeps its ID and its data. A
// run that was interrupted is finished by the next with the same options. The plan's
// Detail is a MemberUpdate. Errors are *fault.Error: Usage for a wrong call or a
// member that is not there, Refused by a guard, Unavailable without a quorum.
func PlanMemberUpdate(client *cluster.Client, view cluster.View, o UpdateOptions, sink progress.Sink) (*plan.Plan, error) {
	c := &membership{client: client, sink: sink, op: "member update"}
	if err := view.VotersErr(c.op); err != nil {
		return nil, err
	}
	m, err := findFor(c, view, o.Member)
	if err != nil {
		return nil, err
	}
	urls, err := c.checkPeerURLs(o.PeerURLs)
	if err != nil {
		return nil, err
	}
	for _, u := range urls {
		if onlyToListen(u) {
			return nil, c.usage("flag", u+" is an address to listen at (--listen-peer-urls), and none to connect to", "give the address of its machine")
		}
	}
	r := &relocation{c: c, m: m, urls: urls, timeout: o.Timeout, arrived: arrival{c: c, id: m.ID, name: m.Label(), urls: urls}}
	if err := r.may(view); err != nil {
		return nil, err
	}
	p := &plan.Plan{Op: c.op, Notes: r.notes(view), Detail: MemberUpdate{ID: cluster.FormatID(m.ID), Name: m.Name, Before: m.PeerURLs, PeerURLs: urls, Listen: listenURLs(urls)}}
	p.Steps = append(p.Steps, r.updateStep())
	if !o.NoWait && len(view.Members) > 1 {
		p.Steps = append(p.Steps, r.reachedStep())
	}
	p.Steps = append(p.Steps, r.verifyStep())
	return p, nil
}

// onlyToListen reports a URL of every address of a machine, as 0.0.0.0 is, and no host at all.
func onlyToListen(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "unix" {
		return false
	}
	return u.Hostname() == "" || net.ParseIP(u.Hostname()).IsUnspecified()
}

// may refuses what etcd would, and where nothing can be decided.
func (r *relocation) may(view cluster.View) error {
	if err := r.c.sound(view, r.m.ID); err != nil {
		return err
	}
	if old := mayForgetLearners(view); r.m.Learner && len(old) > 0 {
		return r.c.refused("learner_becomes_voter", r.m.Label(), fmt.Sprintf("is a learner, and etcd %s of %s makes a voter of it in the member list when its peer URLs change: it never votes then, and cannot be promoted (etcd issue 21694)",
			old[0].Status.Version, labels(old)), "promote it first, or remove it and add it with the new peer URL; etcd 3.5.31, 3.6.12 and later keep it as it is")
	}
	others := without(view, map[uint64]bool{r.m.ID: true})
	if taken := withPeerURL(others.Members, r.urls); len(taken) > 0 {
		return r.c.refused(cluster.CausePeerURLExists, r.m.Label(), "the peer URL belongs to "+labels(taken), "each member has URLs of its own; see `kvd member list`")
	}
	return nil
}

// mayForgetLearners are the members that make a voter of a learner, or of which that is
// not known.
func mayForgetLearners(view cluster.View) []cluster.Member {
	return slices.DeleteFunc(view.Answered(), func(m cluster.Member) bool {
		_, known := parseVersion(m.Status.Version)
		return known && learnersStay().has(m.Status.Version)
	})
}

// notes are what the reader must know before saying yes.
func (r *relocation) notes(view cluster.View) []string {
	out := []string{r.startNote(view)}
	b := balanceOf(view)
	if !r.m.Learner && r.m.Alive() && len(view.Voters()) > 1 {
		b.alive--
		if b.lost() {
			out = append(out, fmt.Sprintf("while it is restarted the quorum is lost: %d of %s alive", b.alive, counted(b.voters, "voter")))
		}
	}
	rest := without(view, map[uint64]bool{r.m.ID: true})
	if s := schemes(rest, r.urls); s != "" {
		out = append(out, s)
	}
	return append(out, ownMachine(rest, r.m.Label(), r.urls)...)
}

// startNote says with which flags the member goes on, or begins where it never has: then
// those that are read at a first start alone have to have the new URLs.
func (r *relocation) startNote(view cluster.View) string {
	if !r.m.Started() {
		return fmt.Sprintf("%s has never started, and its first start has to have the new URLs (NAME: the name it is to have): %s", r.m.Label(), StartOf(view, "NAME", r.urls, nil, r.m.ID).flags())
	}
	return fmt.Sprintf("%s keeps its ID and its data. Where it listens is its own affair: start it with --listen-peer-urls=%s, and with what else of its flags and "+
		"certificates names the old address; the --initial-… flags are not read any more", r.m.Label(), shellWord(strings.Join(listenURLs(r.urls), ",")))
}

// updateStep tells the cluster.
func (r *relocation) updateStep() plan.Step {
	s := plan.Step{StepResult: plan.StepResult{Subject: r.m.Label(), Action: "change its peer URLs",
		Reason: fmt.Sprintf("%s → %s", strings.Join(r.m.PeerURLs, ","), strings.Join(r.urls, ","))}}
	if sameURLs(r.m.PeerURLs, r.urls) {
		s.State, s.Reason = plan.Skipped, "has them already"
	}
	is := func(list []cluster.Member) bool {
		m, ok := byID(list, r.m.ID)
		return ok && sameURLs(m.PeerURLs, r.urls)
	}
	s.Guard = func(ctx context.Context) error {
		view, err := r.c.View(ctx)
		if err != nil {
			return err
		}
		if _, ok := byID(view.Members, r.m.ID); !ok {
			return plan.Skip(removedSince)
		}
		if is(view.Members) {
			return plan.Skip("has them already")
		}
		return r.may(view)
	}
	s.Do = func(ctx context.Context, _ *plan.StepResult) error {
		r.arrived.told = true
		return r.c.change(ctx, r.m.Label(), 0, func(mc *cluster.MemberClient) error {
			_, err := mc.UpdateMember(ctx, r.m.ID, r.urls)
			return err
		}, is)
	}
	return s
}

// reachedStep waits until the member answers and another one reaches it.
func (r *relocation) reachedStep() plan.Step {
	return plan.Step{
		StepResult:   plan.StepResult{Subject: r.m.Label(), Action: "wait until it is reached there", Reason: "you restart it, see the note"},
		AfterEarlier: true,
		Do: func(ctx context.Context, res *plan.StepResult) (err error) {
			res.Reason, err = r.arrived.wait(ctx, r.timeout)
			return err
		},
	}
}

func (r *relocation) verifyStep() plan.Step {
	return plan.Step{
		StepResult:   plan.StepResult{Subject: "cluster", Action: "verify", Reason: "the member list of each voter, the leader, a write"},
		AfterEarlier: true,
		Do: func(ctx context.Context, res *plan.StepResult) (err error) {
			res.Reason, err = r.c.verify(ctx, 0, func(view cluster.View) string {
				return r.c.listsAgree(ctx, view, func(list []cluster.Member) string {
					if m, ok := byID(list, r.m.ID); !ok || !sameURLs(m.PeerURLs, r.urls) {
						return "has still the old peer URLs of " + r.m.Label()
					}
					return ""
				})
			})
			return err
		},
	}
}

// ownMachine warns of peer URLs that only lead somewhere on the machine of who uses
// them, where others have addresses: as etcd's default, http://localhost:2380, does.
func ownMachine(others cluster.View, label string, urls []string) []string {
	var out []string
	for _, m := range others.Members {
		switch own := cluster.OnLoopback(m.PeerURLs); {
		case own == cluster.OnLoopback(urls):
		case own:
			out = append(out, fmt.Sprintf("the peer URL of %s is %s, which leads to it on its own machine only: from elsewhere %s cannot reach it, and a member that joins has to. First: "+
				"kvd member update %s --peer-urls URL, with the address of its machine", m.Label(), strings.Join(m.PeerURLs, ","), label, nameAmong(others, m)))
		default:
			return append(out, fmt.Sprintf("%s leads to %s on its own machine only: %s cannot reach it there from elsewhere", strings.Join(urls, ","), label, m.Label()))
		}
	}
	return out
}
