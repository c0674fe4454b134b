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
	on := "the one with the newest data"
	if best, ok := newest(view); ok {
		on = best.Label()
	}
	return fmt.Sprintf("bring back %s, then nothing is lost: %s; only if they are gone for good: with every member stopped, start %s once with "+
		"`kvd serve --force-new-cluster` and its own flags, then `kvd member add` the others with empty data dirs, or restore a snapshot "+
		"(docs/runbooks/member.md)", missingVoters(missing), comeBack(view), on)
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
			out = append(out, fmt.Sprintf("%s at %s, which never started (`kvd member list` says how)", cluster.FormatID(m.ID), strings.Join(m.PeerURLs, ",")))
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

// newest is the voter with the newest data among those that answer. A status has
// the committed index, not the last one in the log (Status in server/v3/etcdserver/
// api/v3rpc/maintenance.go); what is committed is the same everywhere, so the
// highest one has all that the lower ones have.
func newest(view cluster.View) (cluster.Member, bool) {
	answered := slices.DeleteFunc(view.Voters(), func(m cluster.Member) bool { return m.Status == nil })
	if len(answered) == 0 {
		return cluster.Member{}, false
	}
	return slices.MaxFunc(answered, func(a, b cluster.Member) int {
		return cmp.Or(cmp.Compare(a.Status.RaftIndex, b.Status.RaftIndex), cmp.Compare(a.Status.AppliedIndex, b.Status.AppliedIndex),
			cmp.Compare(a.Status.RaftTerm, b.Status.RaftTerm))
	}), true
}

// newestData says who has it, as far as can be seen, and who may have more.
func newestData(view cluster.View) string {
	best, ok := newest(view)
	if !ok {
		return ""
	}
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
