package ops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// MemberList is the members of a cluster and what they mean for its quorum.
type MemberList struct {
	ClusterID         string          `json:"cluster_id"`
	LeaderID          string          `json:"leader_id,omitempty"`
	Voters            *int            `json:"voters"` // null, like what follows from it, where it is not known who votes
	VotersAlive       *int            `json:"voters_alive"`
	Learners          int             `json:"learners"`
	Quorum            *int            `json:"quorum"`
	FailuresTolerated *int            `json:"failures_tolerated"`
	Members           []ListedMember  `json:"members"`
	Findings          []MemberFinding `json:"findings"`
	Notes             []string        `json:"notes,omitempty"`
}

// ListedMember is one of them.
type ListedMember struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Role         string   `json:"role"`
	Started      bool     `json:"started"`
	Voter        bool     `json:"voter"`
	Reachable    bool     `json:"reachable"` // it answers from here, if only to refuse us
	PeerURLs     []string `json:"peer_urls"`
	ClientURLs   []string `json:"client_urls"`
	RaftIndex    *uint64  `json:"raft_index,omitempty"`
	AppliedIndex *uint64  `json:"applied_index,omitempty"`
	Lag          *uint64  `json:"lag_entries,omitempty"`
	CaughtUp     *float64 `json:"caught_up_ratio,omitempty"` // applied, of what is committed
	Cause        string   `json:"cause,omitempty"`           // why it does not answer, or not to us
}

// MemberFinding is something about the members that one should know.
type MemberFinding struct {
	Cause   string `json:"cause"` // stable
	Member  string `json:"member,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// ListMembers makes the list of a view. It asks each member that answers for its
// own list, a serializable read that needs no quorum, to tell where they differ.
func ListMembers(ctx context.Context, client *cluster.Client, view cluster.View) MemberList {
	l := listOf(view, ownLists(ctx, client, view))
	l.Findings = append(l.Findings, strangers(ctx, client, view)...)
	return l
}

// strangers are members that never joined, and at whose peer URLs a member of another
// cluster answers.
func strangers(ctx context.Context, client *cluster.Client, view cluster.View) []MemberFinding {
	var out []MemberFinding
	for _, m := range view.Members {
		if m.Started() {
			continue
		}
		if why := strange(ctx, client, view, m.PeerURLs); why != "" {
			out = append(out, MemberFinding{Cause: "other_cluster_there", Member: m.Label(), Message: why,
				Hint: "stop it, give it an empty data dir, and start it as a member of this one: " + StartOf(view, "NAME", m.PeerURLs, nil, 0).flags()})
		}
	}
	return out
}

// strange says so where what answers at the peer URLs of a member that has not joined is
// one of another cluster: it can't join any more with what it has.
func strange(ctx context.Context, client *cluster.Client, view cluster.View, urls []string) string {
	id, ok := client.PeerCluster(ctx, urls)
	if !ok || id == view.ID {
		return ""
	}
	return fmt.Sprintf("what answers at %s is a member of another cluster, %s: it was started with --initial-cluster-state=new, or on data that it had before", strings.Join(urls, ","), cluster.FormatID(id))
}

// ownList is the member list as one member has it.
type ownList struct {
	of      cluster.Member
	members []cluster.Member
}

func ownLists(ctx context.Context, client *cluster.Client, view cluster.View) []ownList {
	asked := slices.DeleteFunc(view.Answered(), func(m cluster.Member) bool { return m.Learner }) // which don't serve it
	out := make([]ownList, len(asked))
	var wg sync.WaitGroup
	for i, m := range asked {
		wg.Go(func() {
			if mc, err := client.Member(m.ID); err == nil {
				if list, err := mc.OwnMembers(ctx); err == nil {
					out[i] = ownList{m, list}
				}
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(out, func(l ownList) bool { return l.members == nil })
}

func listOf(view cluster.View, lists []ownList) MemberList {
	l := MemberList{ClusterID: cluster.FormatID(view.ID), Learners: len(view.Learners()),
		Members: []ListedMember{}, Findings: memberFindings(view, lists), Notes: view.Notes}
	if view.VotersKnown() {
		b := balanceOf(view)
		l.Voters, l.VotersAlive, l.Quorum = &b.voters, &b.alive, new(b.quorum())
		if !view.Commits { // else it is not known who of those that are not reached has failed
			l.FailuresTolerated = new(b.tolerated())
		}
	}
	if view.Leader != 0 {
		l.LeaderID = cluster.FormatID(view.Leader)
	}
	for _, m := range view.Members {
		l.Members = append(l.Members, listed(view, m))
	}
	return l
}

func listed(view cluster.View, m cluster.Member) ListedMember {
	out := ListedMember{ID: cluster.FormatID(m.ID), Name: m.Name, Role: view.Role(m), Started: m.Started(), Voter: !m.Learner, Reachable: m.Alive(),
		PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Cause: fault.CauseOf(m.Err)}
	if out.ClientURLs == nil {
		out.ClientURLs = []string{}
	}
	if s := m.Status; s != nil {
		out.RaftIndex, out.AppliedIndex, out.Lag = &s.RaftIndex, &s.AppliedIndex, new(view.Lag(m))
		if head := highestCommit(view); head > 0 && view.VotersKnown() {
			out.CaughtUp = new(min(1, float64(s.AppliedIndex)/float64(head)))
		}
	}
	return out
}

// memberFindings are what is odd about the members, the worst first.
func memberFindings(view cluster.View, lists []ownList) []MemberFinding {
	out := []MemberFinding{}
	if err := view.VotersErr(""); err != nil {
		return append(out, MemberFinding{Cause: fault.CauseOf(err), Message: fault.Why(err), Hint: fault.HintOf(err)})
	}
	if err := view.OneCluster(""); err != nil {
		out = append(out, MemberFinding{Cause: fault.CauseOf(err), Message: fault.Why(err), Hint: fault.HintOf(err)})
	}
	b := balanceOf(view)
	if lost := QuorumLost(view); lost != "" {
		if newest := newestData(view); newest != "" {
			lost += "; " + newest
		}
		out = append(out, MemberFinding{Cause: cluster.CauseNoQuorum, Message: lost, Hint: WaysOut(view)})
	}
	out = append(out, listsDiffer(lists)...)
	for _, m := range view.Members {
		out = append(out, oddMember(view, b, m)...)
	}
	if p := b.parity(); p != "" {
		out = append(out, MemberFinding{Cause: "even_voters", Message: p})
	}
	return append(out, twins(view)...)
}

// oddMember is what is odd about one.
func oddMember(view cluster.View, b balance, m cluster.Member) []MemberFinding {
	switch {
	case !m.Started() && !m.Learner:
		without := b.minus(false)
		return []MemberFinding{{Cause: "unstarted_voter", Member: m.Label(),
			Message: fmt.Sprintf("was added and never started, and counts: %s; without it %s", b, without),
			Hint:    startUnnamed(view, b, m) + "; or remove it, which takes a quorum: kvd member remove " + cluster.FormatID(m.ID)}}
	case !m.Started():
		return []MemberFinding{{Cause: "unstarted_learner", Member: m.Label(), Message: "was added as a learner and never started; it does not count, and keeps others from being added",
			Hint: goOnWith(m) + "; or remove it: kvd member remove " + cluster.FormatID(m.ID)}}
	case m.Learner && m.Status == nil:
		return []MemberFinding{{Cause: "learner", Member: m.Label(), Message: "is a learner and does not answer", Hint: "start it, or remove it: kvd member remove " + nameAmong(view, m)}}
	case m.Learner:
		lag := view.Lag(m)
		return []MemberFinding{{Cause: "learner", Member: m.Label(),
			Message: fmt.Sprintf("is a learner: %.0f %% caught up, %d entries to apply; it adds nothing to the failures tolerated", 100*caughtUpRatio(view, m), lag),
			Hint:    "promote it: kvd member promote " + nameAmong(view, m) + "; or remove it: kvd member remove " + nameAmong(view, m)}}
	}
	if !m.Alive() {
		hint := "start it; if its machine has a new address: kvd member update " + nameAmong(view, m) + " --peer-urls URL; if it is gone for good: kvd member replace " + nameAmong(view, m)
		switch {
		case notReached(view, m):
			hint = reachHelp(m)
		case !cluster.MayBeGone(m.Err):
			hint = fault.HintOf(m.Err)
		}
		return []MemberFinding{{Cause: "voter_silent", Member: m.Label(), Message: "does not answer: " + fault.Why(m.Err), Hint: hint}}
	}
	return nil
}

// startUnnamed says how to start a voter that never was. Without a quorum nothing
// is added, and it is the start line alone that helps.
func startUnnamed(view cluster.View, b balance, m cluster.Member) string {
	if !b.lost() {
		return goOnWith(m)
	}
	return "start it, with the name it was to have for NAME: " + StartOf(view, "NAME", m.PeerURLs, nil, 0).flags()
}

func caughtUpRatio(view cluster.View, m cluster.Member) float64 {
	head := highestCommit(view)
	if head == 0 || m.Status == nil {
		return 0
	}
	return min(1, float64(m.Status.AppliedIndex)/float64(head))
}

// listsDiffer compares the members' own lists. A member that lags may be right
// the next moment; one that stays different holds another membership on its disk.
func listsDiffer(lists []ownList) []MemberFinding {
	var out []MemberFinding
	for i := 1; i < len(lists); i++ {
		a, b := lists[0], lists[i]
		if has, lacks := difference(a.members, b.members), difference(b.members, a.members); has+lacks != "" {
			said := []string{}
			if has != "" {
				said = append(said, a.of.Label()+" has "+has)
			}
			if lacks != "" {
				said = append(said, b.of.Label()+" has "+lacks)
			}
			out = append(out, MemberFinding{Cause: "lists_differ", Member: b.of.Label(),
				Message: "the member list differs between " + a.of.Label() + " and " + b.of.Label() + ": only " + strings.Join(said, ", only "),
				Hint:    "look again in a moment, since one may lag; if it stays, replace the member whose list the fewest share: kvd member replace NAME"})
		}
	}
	return out
}

// difference lists what a has and b has not, or has in another role.
func difference(a, b []cluster.Member) string {
	var out []string
	for _, m := range a {
		o, ok := byID(b, m.ID)
		switch {
		case !ok:
			out = append(out, m.Label())
		case m.Learner != o.Learner && m.Learner:
			out = append(out, m.Label()+" as a learner")
		case m.Learner != o.Learner:
			out = append(out, m.Label()+" as a voter")
		case !sameURLs(m.PeerURLs, o.PeerURLs):
			out = append(out, m.Label()+" at "+strings.Join(m.PeerURLs, ","))
		}
	}
	return strings.Join(out, ", ")
}

// twins are members that share a name, which etcd allows and start lines don't.
func twins(view cluster.View) []MemberFinding {
	count := map[string][]cluster.Member{}
	for _, m := range view.Members {
		if m.Name != "" {
			count[m.Name] = append(count[m.Name], m)
		}
	}
	var out []MemberFinding
	for _, m := range view.Members {
		if same := count[m.Name]; len(same) > 1 && same[0].ID == m.ID {
			out = append(out, MemberFinding{Cause: "same_name", Message: "share one name: " + labels(same), Hint: "name them by ID; if a replacement is under way, finish it"})
		}
	}
	return out
}
