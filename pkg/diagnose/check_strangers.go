package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
)

// checkStrangers looks for endpoints that lead into another cluster.
func checkStrangers() Check {
	return Check{
		Name: "one cluster", Asks: "do all endpoints lead into one cluster?", IDs: []string{"KVD-RAFT-012", "KVD-NET-005"}, Needs: []Need{NeedView},
		Look: func(in *Input) ([]Finding, string) {
			v := in.view()
			var out []Finding
			for i, s := range v.Strangers {
				switch {
				case !s.Shared:
					out = append(out, stranger(v, s))
				case !slices.ContainsFunc(v.Strangers[:i], func(o cluster.Stranger) bool { return o.Shared && o.Endpoint == s.Endpoint }):
					out = append(out, shared(v, s.Endpoint))
				}
			}
			return out, "cluster " + in.clusterID()
		},
	}
}

// stranger is a member of another cluster. Where it answers in a member's place it is that
// one, restored or begun anew. Else it is somebody else's, and nothing is to be done to it.
func stranger(v cluster.View, s cluster.Stranger) Finding {
	f := Finding{ID: "KVD-RAFT-012", Severity: Critical, Subject: s.Endpoint,
		Summary: fmt.Sprintf("%s is member %s of cluster %s, not of %s", s.Endpoint, cluster.FormatID(s.MemberID), cluster.FormatID(s.ClusterID), cluster.FormatID(v.ID)),
		Evidence: []Evidence{{What: "cluster ID there", Text: cluster.FormatID(s.ClusterID), Source: "status of " + s.Endpoint, At: v.At},
			{What: "cluster ID of the others", Text: cluster.FormatID(v.ID), Source: "status of the others", At: v.At},
			{What: "revision there", Value: float64(s.Revision), Unit: Index, Source: "status of " + s.Endpoint, At: v.At}}}
	if m, is := v.AdvertisedBy(s.Endpoint); is {
		f.Summary += ": the two refuse each other (\"cluster ID mismatch\")"
		f.Remedy = []string{"a restored snapshot begins a new cluster: to bring a member back, stop it, and replace it with an empty data dir", "kvd member replace " + name(m)}
		return f
	}
	f.Summary += ": no member of this cluster is known by that address"
	f.Why = "whoever is given it beside the others reads and writes another cluster"
	f.Remedy = []string{"take " + s.Endpoint + " out of the endpoints here and with clients, and out of the balancer or the name before them: it may well be a member of another cluster that is in use, which is not to be stopped or replaced",
		"kvd member list  # the endpoints of this cluster, asked at one of its own members"}
	return f
}

// shared is an endpoint with members of several clusters behind it.
func shared(v cluster.View, endpoint string) Finding {
	f := Finding{ID: "KVD-NET-005", Severity: Critical, Subject: endpoint}
	var of []string
	if slices.Contains(v.Endpoints, endpoint) {
		of = append(of, cluster.FormatID(v.ID))
		f.Evidence = append(f.Evidence, Evidence{What: "cluster ID by one connection", Text: cluster.FormatID(v.ID), Source: "status of " + endpoint, At: v.At})
	}
	for _, s := range v.Strangers {
		if s.Shared && s.Endpoint == endpoint {
			of = append(of, cluster.FormatID(s.ClusterID))
			f.Evidence = append(f.Evidence, Evidence{What: "cluster ID by another", Text: fmt.Sprintf("%s, member %s", cluster.FormatID(s.ClusterID), cluster.FormatID(s.MemberID)), Source: "status of " + endpoint, At: v.At})
		}
	}
	f.Summary = fmt.Sprintf("%s leads into %d clusters, by the connection: %s", endpoint, len(of), strings.Join(of, ", "))
	f.Remedy = []string{"take the members of the other cluster out of the balancer, Service or DNS name behind " + endpoint + "; do nothing to those members, which may be in use",
		"kvd member list --endpoints URL  # at a member's own: the endpoints of its cluster, to give clients until then"}
	return f
}
