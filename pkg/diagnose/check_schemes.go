package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
)

// OtherScheme is a peer URL of the member list that says http where the member speaks
// TLS, or https where it does not: as in the middle of a change from one to the other.
type OtherScheme struct {
	Member uint64
	URL    string
	TLS    bool // the port speaks TLS
}

// notReached says of a member that its peers do not get through to any of its peer URLs,
// since their scheme is not what it speaks there; "" where they do. What it looks like is
// a cluster in which all is well: it opens streams to the others itself, and answers by
// those. Two of that kind hear nothing of each other.
func (in *Input) notReached(m cluster.Member) (said, remedy string) {
	var u OtherScheme
	n := 0
	for _, s := range in.Schemes {
		if s.Member == m.ID && slices.Contains(m.PeerURLs, s.URL) {
			u, n = s, n+1
		}
	}
	if n == 0 || n < len(m.PeerURLs) {
		return "", ""
	}
	speaks, to := "speaks no TLS there", "http"+strings.TrimPrefix(u.URL, "https")
	if u.TLS {
		speaks, to = "speaks TLS there", "https"+strings.TrimPrefix(u.URL, "http")
	}
	remedy = "kvd member update " + name(m) + " --peer-urls " + to + "  # or start it with --listen-peer-urls as the list has it"
	if in.view().Leader == 0 {
		remedy = "start " + name(m) + " with --listen-peer-urls as the member list has it, " + u.URL + ": the list is not changed without a leader"
	}
	return fmt.Sprintf("the peer URL of %s is %s, and it %s: no other member gets through to it, and what they hear of each other goes by the connections that it makes itself", name(m), u.URL, speaks), remedy
}

// strangers lists the voters that no peer gets through to, where there is more than one:
// they do not reach each other.
func (in *Input) strangers() []cluster.Member {
	out := slices.DeleteFunc(in.view().Voters(), func(m cluster.Member) bool {
		said, _ := in.notReached(m)
		return said == ""
	})
	if len(out) < 2 {
		return nil
	}
	return out
}
