package k8s

import "kvd/pkg/loadgen/result"

// mix is what a cluster of so many nodes asks of etcd in a second: a model that was
// made from Kubernetes' source, not from the actors that play it, so that the one
// can be held against the other. What the recorded API server did beside it is
// the leases of the API servers' peers, and their reads.
func (c *Cluster) mix(apiservers int) []result.Expected {
	nodes, pods, servers, kinds := float64(c.Nodes), c.podRate(), float64(apiservers), float64(c.Kinds)
	elected := float64(len(components()))
	life := float64(c.pods().slots()) / pods // all slots begin with a new pod
	return []result.Expected{
		{Name: "txn leases", Rate: nodes/10.2 + elected*0.5 + servers*0.1},
		{Name: "txn nodes", Rate: nodes / 300 * 1.1},
		{Name: "txn pods", Rate: pods * 8, Cycle: life},
		{Name: "txn endpointslices", Rate: pods * 1.25, Cycle: life},
		{Name: "txn endpoints", Rate: pods * 1.25, Cycle: life},
		{Name: "txn replicasets+deployments", Rate: pods * 1.5, Cycle: life, Ops: []string{"txn replicasets", "txn deployments"}},
		{Name: "txn events", Rate: pods * 7.5, Cycle: life},
		{Name: "txn masterleases", Rate: servers * 0.1},
		{Name: "txn peerserverleases", Rate: servers * 0.1},
		{Name: "reads", Rate: pods*6.5 + elected*2*0.31 + servers*(2+0.3+0.2) + kinds*servers/96, Cycle: life, Ops: []string{"range", "range_stream masterleases"}},
	}
}
