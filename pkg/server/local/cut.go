package local

import (
	"fmt"

	"kvd/pkg/ops/fault"
)

// Cut separates member i from all its peers, in both directions, as a broken
// network does. Its clients still reach it. One member is cut off at a time, and
// only in a cluster started with Options.Cuttable. Between the others only what
// does not say whom it is from (etcd's measurement of round trips) is stopped as
// well.
func (c *Cluster) Cut(i int) error {
	m := c.member(i)
	if m.gate == nil {
		return &fault.Error{Kind: fault.Internal, Op: "cut off", Subject: m.name, Msg: "the cluster was not started as cuttable"}
	}
	id := m.gate.id()
	if id == "" {
		return &fault.Error{Kind: fault.Unavailable, Cause: "no_peers", Op: "cut off", Subject: m.name, Msg: "no peer has connected to it yet"}
	}
	for _, other := range c.all() {
		if other != m {
			other.gate.set(false, id)
		}
	}
	m.gate.set(true, "")
	return nil
}

// Mend ends a Cut, whoever was cut off. The members find each other again by
// themselves.
func (c *Cluster) Mend() {
	for _, m := range c.all() {
		if m.gate != nil {
			m.gate.set(false, "")
		}
	}
}

// Abandon gives up what this process does for a cluster whose members outlive it, as
// its end does: the gates are closed, and nobody is kept from the ports.
func (c *Cluster) Abandon() {
	c.closeGates()
	c.dropClaims()
}

// PeerListenURL is where member i listens for its peers: PeerURL, unless the
// cluster is cuttable, whose members are reached through this process.
func (c *Cluster) PeerListenURL(i int) string { return c.member(i).peerListenURL }

// openGate puts a gate in front of a member of a cuttable cluster.
func (m *member) openGate() error {
	if t := m.cluster.opts.TLS; t != nil && t.Peers {
		return &fault.Error{Kind: fault.Usage, Op: "prepare", Subject: m.name, Msg: "a cluster whose peers use TLS cannot be cut: who sends what is not to be seen"}
	}
	g, err := openGate()
	if err != nil {
		return failed("prepare", m.name, err, fmt.Sprintf("no port for its gate: %v", err), "")
	}
	m.gate = g
	return nil
}

func (c *Cluster) closeGates() {
	for _, m := range c.all() {
		if m.gate != nil {
			m.gate.close()
		}
	}
}
