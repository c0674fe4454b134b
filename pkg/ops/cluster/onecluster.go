package cluster

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/fault"
)

// Foreign are the given endpoints by which it is not clear which cluster is meant: those of
// another cluster, and those that lead into several. Where a member of this cluster is to
// answer and one of another does, as after a restore in its place, it is clear.
func (v View) Foreign() []Stranger {
	return slices.DeleteFunc(slices.Clone(v.Strangers), func(s Stranger) bool {
		_, ours := v.AdvertisedBy(s.Endpoint)
		return !s.Shared && ours
	})
}

// AdvertisedBy is the member that has an address among its client URLs.
func (v View) AdvertisedBy(endpoint string) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.advertises(endpoint) })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

// OneCluster is nil where the endpoints lead into one cluster. Else it says which leads into
// which. It is a *fault.Error with Op op, of kind Refused: what is to change something must
// not choose.
func (v View) OneCluster(op string) error {
	foreign := v.Foreign()
	if len(foreign) == 0 {
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: CauseOtherCluster, Op: op, Msg: v.sayForeign(foreign), Hint: hintForeign(foreign)}
}

// sayForeign says which endpoint leads into which cluster.
func (v View) sayForeign(foreign []Stranger) string {
	byCluster, order := map[uint64][]string{}, []uint64{v.ID}
	byCluster[v.ID] = slices.Clone(v.Endpoints)
	several := []string{}
	for _, s := range foreign {
		if !slices.Contains(order, s.ClusterID) {
			order = append(order, s.ClusterID)
		}
		if s.Shared && !slices.Contains(several, s.Endpoint) {
			several = append(several, s.Endpoint)
		}
		if !slices.Contains(byCluster[s.ClusterID], s.Endpoint) {
			byCluster[s.ClusterID] = append(byCluster[s.ClusterID], s.Endpoint)
		}
	}
	var of []string
	for _, id := range order {
		if who := byCluster[id]; len(who) > 0 {
			of = append(of, FormatID(id)+" ("+strings.Join(who, ", ")+")")
		}
	}
	if len(several) > 0 {
		return fmt.Sprintf("%s leads now into one cluster, now into another, by the connection: %s", strings.Join(several, ", "), strings.Join(of, ", "))
	}
	return fmt.Sprintf("the endpoints lead into %d clusters: %s", len(of), strings.Join(of, ", "))
}

func hintForeign(foreign []Stranger) string {
	if slices.ContainsFunc(foreign, func(s Stranger) bool { return s.Shared }) {
		return "take the members of the other cluster out of that balancer, Service or DNS name; until then give the members' own endpoints"
	}
	return "give endpoints of one cluster; the one most of them lead into, or else the first, is taken for the one that is meant"
}

// errSeveral is for an endpoint that answers one request for one cluster, and the next for
// another.
func errSeveral(endpoint string, a, b uint64) error {
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseOtherCluster, Op: "member list", Subject: endpoint,
		Msg:  fmt.Sprintf("one request is answered by cluster %s, the next by %s: something before the members shares requests out to two clusters", FormatID(a), FormatID(b)),
		Hint: "take one cluster's members out of it; until then give the members' own endpoints"}
}

func (m Member) advertises(endpoint string) bool {
	return slices.ContainsFunc(m.ClientURLs, func(u string) bool { return sameAddress(u, endpoint) })
}
