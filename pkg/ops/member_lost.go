package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
)

// WaysOut says what can still be done for a cluster that has lost its quorum, the
// best way first. Nothing online changes the member list then: each change is an
// entry that the quorum of the list before it must take.
func WaysOut(view cluster.View) string {
	b := balanceOf(view)
	missing := b.quorum() - b.alive
	if missing <= 0 {
		return "let the voters reach each other on their peer URLs, and see their logs; as soon as one leads, run this again"
	}
	var ways []string
	ways = append(ways, fmt.Sprintf("bring back %s, then nothing is lost: %s", missingVoters(missing), comeBack(view)))
	if newest := newestData(view); newest != "" {
		ways = append(ways, newest)
	}
	ways = append(ways, "only if they are gone for good: stop every member, start the one with the newest data once with "+
		"`kvd serve --force-new-cluster` and otherwise its own flags, restart it without that flag, and add the others anew with empty data dirs (`kvd member add`); "+
		"or restore a snapshot on every member, which makes a new cluster. Either gives up what only the missing ones had")
	return strings.Join(ways, "; ")
}

func missingVoters(n int) string {
	if n == 1 {
		return "one of the voters"
	}
	return fmt.Sprintf("%d of the voters", n)
}

// comeBack says what keeps each voter that does not answer.
func comeBack(view cluster.View) string {
	var out []string
	for _, m := range view.Voters() {
		switch {
		case m.Alive():
		case !m.Started():
			s := StartOf(view, noName, m.PeerURLs, nil, 0)
			out = append(out, fmt.Sprintf("%s was added and never started, and counts: start it at %s with %s (etcd has no name of it yet: put in the one it is to have)",
				cluster.FormatID(m.ID), strings.Join(m.PeerURLs, ","), s.flags()))
		default:
			out = append(out, fmt.Sprintf("%s at %s", m.Label(), strings.Join(m.PeerURLs, ",")))
		}
	}
	return strings.Join(out, " or ")
}

func nameFor(m cluster.Member) string {
	if m.Name != "" {
		return m.Name
	}
	return "member-" + cluster.FormatID(m.ID)
}

// newestData names the member with the newest data, as far as the members that
// answer tell. A status has the committed index, not the last one in the log
// (Status in server/v3/etcdserver/api/v3rpc/maintenance.go); what is committed is
// the same everywhere, so the highest one has all that the lower ones have.
func newestData(view cluster.View) string {
	answered := slices.DeleteFunc(view.Voters(), func(m cluster.Member) bool { return m.Status == nil })
	if len(answered) == 0 {
		return ""
	}
	best := slices.MaxFunc(answered, func(a, b cluster.Member) int {
		return cmp.Or(cmp.Compare(a.Status.RaftIndex, b.Status.RaftIndex), cmp.Compare(a.Status.AppliedIndex, b.Status.AppliedIndex),
			cmp.Compare(a.Status.RaftTerm, b.Status.RaftTerm))
	})
	said := fmt.Sprintf("the newest data that can be seen is %s's: committed index %d, applied %d, revision %d, term %d",
		best.Label(), best.Status.RaftIndex, best.Status.AppliedIndex, best.Status.Revision, best.Status.RaftTerm)
	var unknown []string
	for _, m := range view.Voters() {
		if m.Status == nil && m.Started() {
			unknown = append(unknown, m.Label())
		}
	}
	if len(unknown) > 0 {
		said += "; " + strings.Join(unknown, ", ") + " can't be asked and may have more: look at their data dirs before giving them up"
	}
	return said
}
