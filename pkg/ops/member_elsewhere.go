package ops

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"kvd/pkg/ops/cluster"
)

// lookupLimit is how long a name may take to become an address.
const lookupLimit = 2 * time.Second

// elsewhere says why what answers at a member's peer URLs is not that member, as far as
// that can be seen from here; empty otherwise. A probe of the other members is answered by
// any etcd (httpHealth in xiang90/probing, which etcd serves its peers). A member does not
// tell its ID at its peer port, but its cluster's, and where the URLs of the others lead is
// known.
func elsewhere(ctx context.Context, client *cluster.Client, view cluster.View, id uint64, urls []string) string {
	for _, u := range urls {
		if of, ok := client.PeerCluster(ctx, []string{u}); ok && of != view.ID {
			return fmt.Sprintf("what answers at %s is a member of another cluster, %s", u, cluster.FormatID(of))
		}
		for _, m := range view.Members {
			if m.ID != id && slices.ContainsFunc(m.PeerURLs, func(other string) bool { return sameSpot(ctx, u, other) }) {
				return fmt.Sprintf("%s leads to %s", u, m.Label())
			}
		}
	}
	return ""
}

// sameSpot reports that two URLs lead to the same port of the same address. Of two names
// it does not look at the addresses: here they may have one that stands for all, where the
// members themselves have others.
func sameSpot(ctx context.Context, a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	if errX != nil || errY != nil || x.Port() != y.Port() {
		return false
	}
	if strings.EqualFold(x.Hostname(), y.Hostname()) {
		return true
	}
	ipsX, ipsY := literal(x.Hostname()), literal(y.Hostname())
	switch {
	case ipsX == nil && ipsY == nil:
		return false
	case ipsX == nil:
		ipsX = lookup(ctx, x.Hostname())
	case ipsY == nil:
		ipsY = lookup(ctx, y.Hostname())
	}
	return slices.ContainsFunc(ipsX, func(ip net.IP) bool { return slices.ContainsFunc(ipsY, ip.Equal) })
}

// literal returns the addresses of a host that is the same one wherever it is used.
func literal(host string) []net.IP {
	if host == "localhost" {
		return []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	}
	if ip := net.ParseIP(host); ip != nil {
		return []net.IP{ip}
	}
	return nil
}

// lookup returns the addresses of a name, without those of this machine itself, which
// another one has otherwise.
func lookup(ctx context.Context, name string) []net.IP {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", name)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(ips, net.IP.IsLoopback)
}
