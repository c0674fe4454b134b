package diagnose

import (
	"fmt"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
)

// votersUnknown is why it cannot be told who votes, so that neither the quorum nor a
// lag can be judged: a learner tells the list of members to nobody.
func votersUnknown(in *Input) []Missing {
	err := in.view().VotersErr("")
	if err == nil {
		return nil
	}
	return []Missing{{Need: NeedView, Why: fault.Why(err), Hint: fault.HintOf(err), Cause: cluster.CauseVotersUnknown}}
}

// waysOut is the rescue of a cluster without a quorum, which kvd member advises too
// (WaysOut in pkg/ops/member_lost.go).
func waysOut(v cluster.View) []string {
	var down []string
	best := ""
	head := uint64(0)
	for _, m := range v.Voters() {
		switch {
		case m.Status == nil:
			down = append(down, name(m))
		case best == "" || m.Status.RaftIndex > head:
			best, head = name(m), m.Status.RaftIndex
		}
	}
	which := "which data dir is the newest"
	if best != "" {
		which += ": of those that answer that of " + best
	}
	first := "start " + list(down) + " again: with a quorum nothing is lost"
	if n := v.Quorum() - v.VotersAlive(); n < len(down) {
		verb := "make"
		if n == 1 {
			verb = "makes"
		}
		first = fmt.Sprintf("start %s again: %d of them %s a quorum, with which nothing is lost", list(down), n, verb)
	}
	return []string{first, "restart none of those that answer: without a quorum one that starts answers nobody, not even what it still has",
		"only if they are gone for good: stop every member that still runs, and keep copies of all data dirs",
		"kvd diagnose --data-dir DIR --data-dir DIR  # " + which,
		"start its member once with kvd serve --force-new-cluster and its own flags, as docs/runbooks/member.md shows",
		"kvd member add NAME --peer-urls URL  # each of the others then, with an empty data dir"}
}

// checkQuorum counts who votes and who answers.
func checkQuorum() Check {
	return Check{
		Name: "quorum", Asks: "is there a leader, and how many failures are survived?",
		IDs: []string{"KVD-RAFT-001", "KVD-RAFT-002", "KVD-RAFT-007", "KVD-RAFT-009", "KVD-RAFT-013"}, Needs: []Need{NeedView}, Blind: votersUnknown,
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			voters := len(v.Voters())
			e := []Evidence{
				{What: "voters", Value: float64(voters), Unit: Count, Source: "member list", At: v.At},
				{What: "of them answer", Value: float64(v.VotersAlive()), Unit: Count, Source: "status of each", At: v.At},
				{What: "quorum", Value: float64(v.Quorum()), Unit: Count, Source: "member list", At: v.At},
			}
			down := []string{"KVD-NET-001", "KVD-RAFT-008"}
			var out []Finding
			unseen := in.runUnseen()
			if len(unseen) > 0 {
				e = append(e, Evidence{What: "run as well", Text: names(unseen), Source: "metrics of " + in.heardBy(v, unseen[0]), At: v.At})
			}
			switch tolerated := max(0, v.VotersAlive()+len(unseen)-v.Quorum()); {
			case !v.VotersKnown(), v.Commits: // how many failures are survived, those tell that are not reached
			case v.QuorumLost():
				out = append(out, Finding{ID: "KVD-RAFT-002", Severity: Critical, Subject: "cluster", Evidence: e, ExplainedBy: down,
					Summary: fmt.Sprintf("no quorum: %d of %d voters answer, and it takes %d; nothing can be written, and no member added or removed", v.VotersAlive(), voters, v.Quorum()),
					Remedy:  waysOut(v)})
			case voters > 1 && tolerated == 0:
				out = append(out, Finding{ID: "KVD-RAFT-007", Severity: Warning, Subject: "cluster", Evidence: e, ExplainedBy: down,
					Summary: fmt.Sprintf("%d of %d voters answer and it takes %d: the next failure makes the cluster read-only", v.VotersAlive(), voters, v.Quorum()),
					Remedy:  []string{"kvd member list", "bring back who is down", "kvd member replace NAME  # if one is gone for good", "where there are fewer than 3 voters, add one"}})
			case voters%2 == 0 && voters > 2:
				out = append(out, Finding{ID: "KVD-RAFT-009", Severity: Info, Subject: "cluster", Evidence: e,
					Summary: fmt.Sprintf("%d voters survive as many failures as %d would, and each write waits for one more", voters, voters-1),
					Remedy:  []string{"nothing to hurry: one member more or one less makes it an odd number"}})
			}
			if f, is := in.noLeader(v); is {
				out = append(out, f)
			}
			out = append(out, in.cutOff(v)...)
			if !v.VotersKnown() {
				return out, "who votes is not known: " + fault.Why(v.VotersErr(""))
			}
			return out, fmt.Sprintf("%s, %d answer; %s survived; leader %s", counted(voters, "voter"), v.VotersAlive(), counted(v.FailuresTolerated(), "more failure"), leaderName(v))
		},
	}
}

// runUnseen are voters that do not answer here and of which the leader hears: they run, and
// only the way from here is missing.
func (in *Input) runUnseen() []cluster.Member {
	v := in.view()
	var out []cluster.Member
	for _, m := range v.Voters() {
		if !m.Alive() && in.heardBy(v, m) != "" {
			out = append(out, m)
		}
	}
	return out
}

// heardBy names who has received something from a member between the looks, at both of
// which that did not answer here: the leader, or whoever hears from the leader. The connection that stands
// (etcd_network_active_peers) would prove little: it stands for long to one that hangs.
// Nor is a member heard that waits for a snapshot in vain.
func (in *Input) heardBy(v cluster.View, m cluster.Member) string {
	if in.Before == nil || v.Leader == 0 {
		return ""
	}
	if before, ok := in.Before.View.MemberByID(m.ID); !ok || before.Status != nil {
		return "" // it may have ended since
	}
	if _, _, starved := in.snapshotFails(m); starved {
		return "" // it has no entry of those that it would have to have for a write
	}
	for _, d := range in.deltas() {
		if n, _ := d.Counter("etcd_network_peer_received_bytes_total", metrics.Labels{"From": cluster.FormatID(m.ID)}); n > 0 && (d.Member.ID == v.Leader || m.ID == v.Leader) {
			return name(d.Member)
		}
	}
	return ""
}

// noLeader is critical where no look shows a leader; the second alone may have fallen
// into an election.
func (in *Input) noLeader(v cluster.View) (Finding, bool) {
	if v.Leader != 0 || len(v.Answered()) == 0 {
		return Finding{}, false
	}
	f := Finding{ID: "KVD-RAFT-001", Severity: Critical, Subject: "cluster", ExplainedBy: []string{"KVD-RAFT-002", "KVD-NET-002"},
		Summary: "no member knows a leader: nothing can be written, no lease is renewed and none expires",
		Remedy:  []string{"kvd member list  # see whether the members reach each other at these peer URLs", "kvd diagnose  # again in a moment: an election takes a second or two"}}
	if v.QuorumLost() {
		f.ExplainedBy = append(f.ExplainedBy, "KVD-NET-001", "KVD-RAFT-008")
		f.Remedy = []string{"bring back a quorum, as KVD-RAFT-002 says: there is no election without one"}
	}
	for _, m := range v.Answered() {
		f.Evidence = append(f.Evidence, status(m, "term of "+name(m), float64(m.Status.RaftTerm), Index))
	}
	if in.Before != nil && in.Before.View.Leader != 0 && !v.QuorumLost() {
		f.Severity, f.Summary = Warning, "no member knows a leader at the second look: an election is under way, or the quorum has just been lost"
	}
	return f, true
}

// cutOff finds members that know no leader while others have one. One look may fall
// into an election.
func (in *Input) cutOff(v cluster.View) []Finding {
	var out []Finding
	for _, m := range v.Answered() {
		old, ok := in.before(m.ID)
		if v.Leader == 0 || m.Status.Leader != 0 || !ok || old.Status.Leader != 0 {
			continue
		}
		f := Finding{ID: "KVD-RAFT-013", Severity: Warning, Subject: name(m), ExplainedBy: []string{"KVD-RAFT-012"},
			Summary: fmt.Sprintf("%s knows no leader while the others follow %s: it answers serializable reads with old data, and no others", name(m), leaderName(v)),
			Evidence: []Evidence{{What: "leader by " + name(m), Text: "none, at both looks", Source: "status of " + name(m), At: m.At},
				status(m, "revision of "+name(m), float64(m.Status.Revision), Index), status(m, "entries behind", float64(behind(v, m)), Count)},
			Remedy: []string{"kvd member list  # see whether it and its peers reach each other at these peer URLs", "meanwhile have clients go to the others; a client that must not read old data asks linearizable, or with WithRequireLeader"}}
		if e, other := in.otherIssuer(m); other {
			f.Evidence, f.Remedy = append(f.Evidence, e), append([]string{ofOneCA(m)}, f.Remedy...)
		}
		out = append(out, f)
	}
	return out
}

func leaderName(v cluster.View) string {
	if m, ok := v.LeaderMember(); ok {
		return name(m)
	}
	if v.Leader != 0 {
		return cluster.FormatID(v.Leader)
	}
	return "none"
}
