package loadgen

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// Policy says to which members the API servers connect.
type Policy string

// The policies. The leader is the one at the beginning of the run.
const (
	Spread    Policy = "spread"    // each API server to one member, in turn: kubeadm's stacked etcd
	Leader    Policy = "leader"    // all to the leader
	Followers Policy = "followers" // all but the leader, in turn
)

// String, Set and Type make it a flag's value.
func (p *Policy) String() string { return string(*p) }

// Type names the kind of flag value.
func (p *Policy) Type() string { return "policy" }

// Set accepts one of the policies.
func (p *Policy) Set(s string) error {
	switch v := Policy(s); v {
	case Spread, Leader, Followers:
		*p = v
		return nil
	}
	return fmt.Errorf("%q is not a policy: want spread, leader or followers", s)
}

// endpoints returns where each of n API servers connects: to none of those to avoid.
func (p Policy) endpoints(v cluster.View, n int, avoid []string) ([]string, error) {
	for _, name := range avoid {
		if !slices.ContainsFunc(v.Members, func(m cluster.Member) bool { return m.Name == name }) {
			return nil, &fault.Error{Kind: fault.Usage, Cause: cluster.CauseMemberNotFound, Op: "--avoid", Subject: name, Msg: "no member has that name", Hint: "`kvd member list` has the names"}
		}
	}
	var at []string
	for _, m := range v.Voters() {
		if m.Status == nil || p == Leader && m.ID != v.Leader || p == Followers && m.ID == v.Leader || slices.Contains(avoid, m.Name) {
			continue
		}
		at = append(at, m.Endpoint)
	}
	if len(at) == 0 {
		return nil, &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseNoEndpoint, Op: "loadgen",
			Msg: fmt.Sprintf("no member is there to connect to under the policy %q", string(p)), Hint: "see `kvd status`; --endpoints-policy spread takes every voter"}
	}
	slices.Sort(at)
	out := make([]string, n)
	for i := range out {
		out[i] = at[i%len(at)]
	}
	return out, nil
}

// connections are those of a number of API servers: one for each resource, and
// so many more that stand idle, since kube-apiserver has one for each of its some
// 75 resources.
type connections struct {
	apiservers int
	dial       func(endpoint string) (*clientv3.Client, error)
	endpoints  []string // by API server

	mu    sync.Mutex
	open  map[connKey]*clientv3.Client
	spare []*clientv3.Client
	fail  error
}

type connKey struct {
	apiserver int
	resource  string
}

func newConnections(client *cluster.Client, v cluster.View, o Options) (*connections, error) {
	at, err := o.Policy.endpoints(v, o.APIServers, o.Avoid)
	if err != nil {
		return nil, err
	}
	c := &connections{apiservers: o.APIServers, endpoints: at, dial: client.DialLikeAPIServer, open: map[connKey]*clientv3.Client{}}
	for i := range at {
		probe, err := c.dial(at[i])
		if err != nil {
			c.close()
			return nil, err
		}
		c.open[connKey{i, probeResource}] = probe
	}
	return c, nil
}

// probeResource names the connection with which kube-apiserver asks after etcd's
// health, which each has from its start.
const probeResource = "health"

// client returns the connection, and makes it where there is none, which sends
// nothing. It fails for nothing but a bundle that could not have brought us here;
// complete then tells.
func (c *connections) client(apiserver int, resource string) *clientv3.Client {
	k := connKey{apiserver % c.apiservers, resource}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl, ok := c.open[k]; ok {
		return cl
	}
	cl, err := c.dial(c.endpoints[k.apiserver])
	if err != nil {
		c.fail = errors.Join(c.fail, err)
		return c.open[connKey{k.apiserver, probeResource}]
	}
	c.open[k] = cl
	return cl
}

// endpointOf is where an API server connects; the index is taken modulo their number.
func (c *connections) endpointOf(apiserver int) string { return c.endpoints[apiserver%c.apiservers] }

// mostConnections is how many one generator may have: Linux gives out some 28,000 local
// ports towards one address (net.ipv4.ip_local_port_range), and those that were
// closed are not free at once.
const mostConnections = 20_000

// complete opens idle connections until each API server has so many. stop ends that at
// once, since thousands take their time.
func (c *connections) complete(perServer int, stop <-chan struct{}) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := make([]int, c.apiservers)
	for k := range c.open {
		have[k.apiserver]++
	}
	for i, n := range have {
		for ; n < perServer; n++ {
			if closed(stop) {
				return &fault.Error{Kind: fault.Interrupted, Op: "loadgen", Msg: "stopped while connections were opened", Hint: "`kvd loadgen clean` removes what was written"}
			}
			cl, err := c.dial(c.endpoints[i])
			if err != nil {
				return err
			}
			c.spare = append(c.spare, cl)
			cl.ActiveConnection().Connect()
		}
	}
	return c.fail
}

// count is how many there are.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) + len(c.spare)
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cl := range c.open {
		_ = cl.Close() // nothing is under way any more
	}
	for _, cl := range c.spare {
		_ = cl.Close()
	}
}

// membersOf lists the members of a view, and which of them are loaded.
func (c *connections) membersOf(v cluster.View) []result.Member {
	var out []result.Member
	for _, m := range v.Members {
		r := result.Member{Name: m.Name, ID: cluster.FormatID(m.ID), Role: v.Role(m), Loaded: slices.Contains(c.endpoints, m.Endpoint)}
		if m.Status != nil {
			r.Version, r.Quota = m.Status.Version, max(0, m.Status.EffectiveQuota())
		}
		out = append(out, r)
	}
	return out
}
