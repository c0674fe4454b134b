package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
)

// checkUnstarted looks for voters that were added and never started: they count
// for the quorum from the moment they are added.
func checkUnstarted() Check {
	return Check{
		Name: "unstarted members", Asks: "has every voter joined?", IDs: []string{"KVD-RAFT-008"}, Needs: []Need{NeedView}, Blind: votersUnknown,
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			var out []Finding
			for _, m := range v.Voters() {
				if m.Started() {
					continue
				}
				f := Finding{ID: "KVD-RAFT-008", Severity: Warning, Subject: name(m),
					Summary: fmt.Sprintf("the member at %s was added and never started, and counts: the quorum is %d of %d", strings.Join(m.PeerURLs, ","), v.Quorum(), len(v.Voters())),
					Evidence: []Evidence{{What: "name and client URLs", Text: "none", Source: "member list", At: v.At},
						{What: "voters that answer", Value: float64(v.VotersAlive()), Unit: Count, Source: "status of each", At: v.At}},
					Remedy: []string{"kvd member list  # how it has to be started", "kvd member remove " + cluster.FormatID(m.ID) + "  # if it is not wanted"}}
				if v.QuorumLost() {
					f.Severity = Critical
					f.Remedy = []string{"kvd member list  # how it has to be started; a removal takes the quorum that is not there",
						"if it cannot be started, see KVD-RAFT-002"}
				}
				out = append(out, f)
			}
			return out, fmt.Sprintf("all of %d", len(v.Voters()))
		},
	}
}

// checkLists compares the members' own lists. Those with another list than the
// most have, or than the furthest where none has most, hold another membership on
// their disks.
func checkLists() Check {
	return Check{
		Name: "member lists", Asks: "do all members name the same members?", IDs: []string{"KVD-RAFT-010"}, Needs: []Need{NeedLists},
		Look: func(in *Input) ([]Finding, string) {
			usual := usualList(in.Lists)
			var out []Finding
			for _, l := range in.Lists {
				if key(l.Members) == key(usual) {
					continue
				}
				more, less := minus(l.Members, usual), minus(usual, l.Members)
				f := Finding{ID: "KVD-RAFT-010", Severity: Warning, Subject: name(l.Of), Remedy: []string{
					"kvd diagnose  # again in a moment: a member that lags may hear of a change late", "kvd member replace " + name(l.Of) + "  # if it stays"}}
				says := []string{}
				for _, m := range more {
					says = append(says, "has "+describe(m)+", which the others do not")
				}
				for _, m := range less {
					says = append(says, "lacks "+describe(m))
				}
				f.Summary = fmt.Sprintf("the member list of %s differs: it %s", name(l.Of), list(says))
				for _, o := range in.Lists {
					f.Evidence = append(f.Evidence, Evidence{What: "members by " + name(o.Of), Text: names(o.Members), Source: "member list of " + name(o.Of), At: in.At})
				}
				out = append(out, f)
			}
			return out, fmt.Sprintf("%s, each with %s", counted(len(in.Lists), "list"), counted(len(usual), "member"))
		},
	}
}

// usualList is the list that most members have; where none has most, that of the one
// that has applied the most: a member that lags hears of a change late.
func usualList(all []OwnList) []cluster.Member {
	count := map[string]int{}
	for _, l := range all {
		count[key(l.Members)]++
	}
	best := slices.MaxFunc(all, func(a, b OwnList) int {
		return cmp.Or(cmp.Compare(count[key(a.Members)], count[key(b.Members)]), cmp.Compare(applied(a.Of), applied(b.Of)))
	})
	return best.Members
}

func applied(m cluster.Member) uint64 {
	if m.Status == nil {
		return 0
	}
	return m.Status.AppliedIndex
}

// key is the same for lists that say the same.
func key(all []cluster.Member) string {
	out := make([]string, 0, len(all))
	for _, m := range all {
		out = append(out, describe(m))
	}
	slices.Sort(out)
	return strings.Join(out, "|")
}

func describe(m cluster.Member) string {
	s := m.Label()
	if m.Learner {
		s += " as a learner"
	}
	urls := slices.Clone(m.PeerURLs)
	slices.Sort(urls)
	return s + " at " + strings.Join(urls, ",")
}

// minus lists what a has and b has not, or has otherwise.
func minus(a, b []cluster.Member) []cluster.Member {
	return slices.DeleteFunc(slices.Clone(a), func(m cluster.Member) bool {
		return slices.ContainsFunc(b, func(o cluster.Member) bool { return describe(o) == describe(m) })
	})
}

// outvoted are members that most lists do not have: a record that one member has
// left over says nothing of the cluster.
func (in *Input) outvoted(m cluster.Member) bool {
	if len(in.Lists) < 2 {
		return false
	}
	return !slices.ContainsFunc(usualList(in.Lists), func(o cluster.Member) bool { return o.ID == m.ID })
}
