package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mergeLists makes one member list of what the endpoints said. The list of the
// member of most endpoints' cluster that is furthest is the base; where another
// has a member more or less, a note says so.
func mergeLists(answers []answer) (members []Member, notes []string) {
	said := slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return len(a.members) == 0 })
	if len(said) == 0 {
		return membersWithoutList(answers), nil
	}
	slices.SortStableFunc(said, func(a, b answer) int { return cmp.Compare(b.status.AppliedIndex, a.status.AppliedIndex) })
	base := said[0]
	if i := slices.IndexFunc(said, func(a answer) bool { return a.header.cluster == clusterID(answers) }); i > 0 {
		base, said[i] = said[i], base // what one endpoint of another cluster says is not about this one
		said[0] = base
	}
	members = slices.Clone(base.members)
	for _, a := range said[1:] {
		switch {
		case a.header.cluster != base.header.cluster:
			notes = append(notes, fmt.Sprintf("%s "+otherCluster+" (%s) than %s (%s) and is left out",
				a.endpoint, FormatID(a.header.cluster), base.endpoint, FormatID(base.header.cluster)))
		case ids(a.members) != ids(base.members):
			notes = append(notes, fmt.Sprintf("the member list differs between %s (%s) and %s (%s)",
				base.endpoint, ids(base.members), a.endpoint, ids(a.members)))
		}
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return members, notes
}

// membersWithoutList makes members of the endpoints that gave their status and
// no list; those of another cluster than most are none of it.
func membersWithoutList(answers []answer) (members []Member) {
	of := clusterID(answers)
	for _, a := range answers {
		if a.status == nil || a.header.cluster != of || slices.ContainsFunc(members, func(m Member) bool { return m.ID == a.header.member }) {
			continue
		}
		members = append(members, Member{ID: a.header.member, Learner: a.status.Learner})
	}
	return members
}

// listError says why none of the endpoints that answered told its member list,
// or nil. What a voter says is worth more: a learner never tells it.
func listError(answers []answer) (why error) {
	learner := true
	for _, a := range answers {
		switch {
		case len(a.members) > 0:
			return nil
		case a.status == nil:
		case why == nil, learner && !a.status.Learner:
			why, learner = a.err, a.status.Learner
		}
	}
	return why
}

func ids(members []Member) string {
	out := make([]string, 0, len(members))
	for _, m := range members {
		s := m.Label()
		if m.Learner {
			s += " learner"
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// clusterID is that of most endpoints that answered; of equally many the first's.
func clusterID(answers []answer) (most uint64) {
	count := map[uint64]int{}
	for _, a := range answers {
		if a.status == nil {
			continue
		}
		count[a.header.cluster]++
	}
	for _, a := range answers {
		if a.status != nil && count[a.header.cluster] > count[most] {
			most = a.header.cluster
		}
	}
	return most
}

// strangers are the endpoints of other clusters: those that were given, and those that
// were met where members were asked at the URLs that they advertise.
func strangers(answers []answer, id uint64, met []*Stranger) []Stranger {
	var out []Stranger
	for _, a := range answers {
		if a.status != nil && a.header.cluster != id {
			out = append(out, Stranger{Endpoint: a.endpoint, ClusterID: a.header.cluster, MemberID: a.header.member, Revision: a.status.Revision})
		}
	}
	for _, s := range met {
		if s != nil && !slices.ContainsFunc(out, func(o Stranger) bool { return sameAddress(o.Endpoint, s.Endpoint) }) {
			out = append(out, *s)
		}
	}
	return out
}

// endpointsOf are the given endpoints that lead into the cluster.
func endpointsOf(answers []answer, id uint64) []string {
	var out []string
	for _, a := range answers {
		if a.status != nil && a.header.cluster == id {
			out = append(out, a.endpoint)
		}
	}
	return out
}

// leaderOf returns the leader that the members of the highest term name.
func leaderOf(members []Member) uint64 {
	var leader, term uint64
	for _, m := range members {
		if m.Status != nil && m.Status.Leader != 0 && m.Status.RaftTerm >= term {
			leader, term = m.Status.Leader, m.Status.RaftTerm
		}
	}
	return leader
}

// mergeAlarms lists each alarm once, with who reported it.
func mergeAlarms(v View) []Alarm {
	type key struct {
		id  uint64
		typ string
	}
	who := map[key][]string{}
	for _, m := range v.Members {
		if m.Status == nil {
			continue
		}
		for _, a := range m.Status.Alarms {
			k := key{a.MemberID, a.Type}
			who[k] = append(who[k], cmp.Or(m.Name, FormatID(m.ID)))
		}
	}
	out := make([]Alarm, 0, len(who))
	for k, names := range who {
		m, in := v.MemberByID(k.id)
		out = append(out, Alarm{MemberID: k.id, MemberName: m.Name, Type: k.typ, InMemberList: in,
			Source: "status of " + strings.Join(names, ", ")})
	}
	slices.SortFunc(out, func(a, b Alarm) int {
		return cmp.Or(cmp.Compare(a.MemberName, b.MemberName), cmp.Compare(a.MemberID, b.MemberID), cmp.Compare(a.Type, b.Type))
	})
	return out
}
