package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// checkAdvertised looks for URLs that nobody else can use: peers, and clients that
// sync their endpoints, are told them.
func checkAdvertised() Check {
	return Check{
		Name: "advertised URLs", Asks: "can clients and peers use the URLs that members advertise?", IDs: []string{"KVD-NET-002"}, Needs: []Need{NeedView},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			apart := in.strangers()
			for _, m := range in.view().Members {
				f := Finding{ID: "KVD-NET-002", Severity: Warning, Subject: name(m), ExplainedBy: []string{"KVD-RAFT-012"},
					Evidence: []Evidence{{What: "client URLs", Text: strings.Join(m.ClientURLs, ","), Source: "member list", At: in.At}, {What: "peer URLs", Text: strings.Join(m.PeerURLs, ","), Source: "member list", At: in.At}}}
				var said []string
				if why := unusable(m); why != "" {
					said = append(said, fmt.Sprintf("%s advertises %s to clients: %s", name(m), strings.Join(m.ClientURLs, ","), why))
					f.Remedy = append(f.Remedy, "start "+name(m)+" with --advertise-client-urls that lead to it from where its clients are")
				}
				if others := in.elsewhere(m); others != "" {
					said = append(said, fmt.Sprintf("the peer URL of %s, %s, leads to it on its own machine only, and %s cannot send it a snapshot by it, nor a new member join", name(m), strings.Join(m.PeerURLs, ","), others))
					f.Remedy = append(f.Remedy, "kvd member update "+name(m)+" --peer-urls URL  # with the address of its machine, where its --listen-peer-urls has to be too")
				}
				if why, remedy := in.notReached(m); why != "" {
					if slices.ContainsFunc(apart, func(a cluster.Member) bool { return a.ID == m.ID }) {
						f.Severity = Critical
						why += "; " + names(apart) + " do not reach each other, and are no quorum without another"
					}
					said, f.Remedy = append(said, why), append(f.Remedy, remedy)
				}
				if len(said) > 0 {
					f.Summary = strings.Join(said, "; ")
					out = append(out, f)
				}
			}
			return out, "no address that only its own machine knows"
		},
	}
}

// unusable says why clients elsewhere cannot use a member's client URLs.
func unusable(m cluster.Member) string {
	switch fault.CauseOf(m.Err) {
	case cluster.CauseOtherMember:
		return "another member answers there"
	case cluster.CauseTLSRequired:
		return "the server there speaks TLS"
	case cluster.CauseTLSNotSupported:
		return "the server there speaks no TLS"
	}
	for _, u := range m.ClientURLs {
		ip := cluster.HostIP(u)
		switch {
		case ip == nil:
		case ip.IsUnspecified():
			return "that is an address to listen at, and none to connect to"
		case ip.IsLoopback() && len(m.PeerURLs) > 0 && !cluster.OnLoopback(m.PeerURLs):
			return "that is each client's own machine"
		}
	}
	return ""
}

// elsewhere names the members that have addresses where the peer URLs of one are of
// its own machine; "" where all are alike. The cluster may work all the same: a member
// gets what is written by streams that it has opened itself.
func (in *Input) elsewhere(m cluster.Member) string {
	if !cluster.OnLoopback(m.PeerURLs) || len(m.PeerURLs) == 0 {
		return ""
	}
	return names(slices.DeleteFunc(slices.Clone(in.view().Members), func(o cluster.Member) bool { return cluster.OnLoopback(o.PeerURLs) }))
}
