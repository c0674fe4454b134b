package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
)

// An endpoint may be a load balancer's, a virtual IP, or a name with several addresses.
// One connection tells who is behind it this time; where that is members of two clusters,
// each client reads and writes the one that it happened to get.

const (
	// sharedLooks is how many more connections are made to an endpoint that may be shared.
	// A balancer that takes turns between two clusters is seen by the first, one that draws
	// lots is missed by three in 1 of 8 cases.
	sharedLooks = 3
	// sharedAddresses bounds them where a name has many addresses, each of which gets one.
	sharedAddresses = 8
	// sharedAge is for how long what was found is not looked at again: whoever waits for
	// something takes a view twice a second.
	sharedAge = time.Minute
)

// behind is who answered at one endpoint, connection by connection.
type behind struct {
	at      time.Time
	met     []Stranger
	refused error // what is not all of them was said to some of the connections
}

// seeShared looks behind the given endpoints that may lead to more than one member, all at
// the same time, and adds to the strangers whoever of another cluster it meets there. It
// takes DialTimeout at most.
func (c *Client) seeShared(ctx context.Context, v *View, given []answer) {
	found := make([]behind, len(given))
	var wg sync.WaitGroup
	for i, a := range given {
		if a.status != nil && mayBeShared(a, v.Members) {
			wg.Go(func() { found[i] = c.lookBehind(ctx, a.endpoint, a.header.cluster) })
		}
	}
	wg.Wait()
	for i, a := range given {
		if a.status == nil {
			continue
		}
		all := append([]Stranger{{Endpoint: a.endpoint, ClusterID: a.header.cluster, MemberID: a.header.member, Revision: a.status.Revision}}, found[i].met...)
		if a.other.cluster != 0 {
			all = append(all, Stranger{Endpoint: a.endpoint, ClusterID: a.other.cluster, MemberID: a.other.member})
		}
		if slices.ContainsFunc(all, func(s Stranger) bool { return s.ClusterID != all[0].ClusterID }) {
			v.addShared(all)
		}
		if found[i].refused != nil {
			v.Unreached = append(v.Unreached, EndpointError{a.endpoint, found[i].refused})
		}
	}
}

// addShared adds the members of other clusters among those that one endpoint leads to, one
// for each cluster.
func (v *View) addShared(met []Stranger) {
	for _, s := range met {
		s.Shared = true
		i := slices.IndexFunc(v.Strangers, func(o Stranger) bool {
			return sameAddress(o.Endpoint, s.Endpoint) && o.ClusterID == s.ClusterID
		})
		switch {
		case s.ClusterID == v.ID:
		case i >= 0:
			v.Strangers[i].Shared = true
		default:
			v.Strangers = append(v.Strangers, s)
		}
	}
}

// mayBeShared is false for an address that one member alone advertises and at which it
// answered. A name is not enough: members that each began a cluster of their own may all
// advertise their Service's.
func mayBeShared(a answer, members []Member) bool {
	if strings.HasPrefix(a.endpoint, "unix") {
		return false
	}
	t, bad := target(a.endpoint)
	if bad != nil {
		return false
	}
	if _, err := netip.ParseAddr(strings.Trim(t.host, "[]")); err != nil {
		return true
	}
	whose := slices.DeleteFunc(slices.Clone(members), func(m Member) bool {
		return !m.advertises(a.endpoint)
	})
	return len(whose) != 1 || whose[0].ID != a.header.member
}

// lookBehind makes some more connections to an endpoint, and tells who answered on each.
// One that fails says nothing, unless it is refused, by a certificate or a password, where
// another was let in: who is behind it is not all of one cluster then, or not all set up alike.
// What was found lately is still so where it is what has just been met, too.
func (c *Client) lookBehind(ctx context.Context, endpoint string, cluster uint64) behind {
	c.mu.Lock()
	known := c.shared[endpoint]
	c.mu.Unlock()
	other := slices.ContainsFunc(known.met, func(s Stranger) bool { return s.ClusterID != cluster })
	if time.Since(known.at) < sharedAge && !other && known.refused == nil {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	addrs := addressesOf(ctx, endpoint)
	met := make([]*Stranger, max(sharedLooks, len(addrs)))
	errs := make([]error, len(met))
	var wg sync.WaitGroup
	for i := range met {
		var opts []grpc.DialOption
		if len(addrs) > 1 { // gRPC would take the first that lets it connect, each time
			opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", addrs[i%len(addrs)])
			}))
		}
		wg.Go(func() { met[i], errs[i] = c.meet(ctx, endpoint, opts) })
	}
	wg.Wait()
	out := behind{at: time.Now()}
	for _, s := range met {
		if s != nil {
			out.met = append(out.met, *s)
		}
	}
	out.refused = errNotEachTime(endpoint, errs)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared[endpoint] = out
	return out
}

// addressesOf are those of an endpoint's host, with its port.
func addressesOf(ctx context.Context, endpoint string) []string {
	t, bad := target(endpoint)
	if bad != nil {
		return nil
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, strings.Trim(t.host, "[]"))
	if err != nil {
		return nil
	}
	var out []string
	for _, ip := range ips[:min(len(ips), sharedAddresses)] {
		out = append(out, net.JoinHostPort(ip, t.port))
	}
	return out
}

// meet asks who answers on a new connection. The token that there is may be unknown to
// another cluster: a login there tells its ID as well, and what it gives is not kept.
func (c *Client) meet(ctx context.Context, endpoint string, opts []grpc.DialOption) (*Stranger, error) {
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, TLS: c.tls, Logger: zap.NewNop(), MaxUnaryRetries: 1,
		DialOptions: c.dialOptions(append(opts, grpc.WithPerRPCCredentials(&c.auth))...),
	})
	if err != nil {
		return nil, err
	}
	defer etcd.Close() //nolint:errcheck // nothing was written
	s := Stranger{Endpoint: endpoint}
	var h *pb.ResponseHeader
	status, err := pb.NewMaintenanceClient(etcd.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	h = status.GetHeader()
	if c.auth.wanted() && staleToken(c.auth.get(), err) {
		var login *clientv3.AuthenticateResponse
		if login, err = etcd.Authenticate(ctx, c.auth.user, c.auth.password); err == nil {
			h = login.Header
		}
	}
	if err != nil || h == nil {
		return nil, err
	}
	s.ClusterID, s.MemberID, s.Revision = h.GetClusterId(), h.GetMemberId(), h.GetRevision()
	return &s, nil
}

// errNotEachTime is for an endpoint where some connections are refused for what they have
// shown, or for what was shown to them; nil where none is.
func errNotEachTime(endpoint string, errs []error) error {
	n, why := 0, ""
	for _, err := range errs {
		if said := saysNo(err); said != "" {
			n, why = n+1, said
		}
	}
	if n == 0 {
		return nil
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseNotEachTime, Op: "status", Subject: endpoint,
		Msg:  fmt.Sprintf("a connection was let in, and of %d more %d were refused: %s", len(errs), n, why),
		Hint: "a balancer, a Service or a name with several addresses is before members that have not all the same CA or users, as those of two clusters: give the members' own endpoints, and take out of it who does not belong there"}
}

// saysNo is why a connection was refused for certificates or a password; "" if it was not.
func saysNo(err error) string {
	text := ""
	if err != nil {
		text = err.Error()
	}
	for _, sign := range []string{"x509: ", "remote error: tls: "} {
		if _, why, is := strings.Cut(text, sign); is {
			return strings.Trim(why, `"`)
		}
	}
	if errors.Is(ofServer(err), rpctypes.ErrAuthFailed) {
		return "the user or the password is wrong there"
	}
	return ""
}
