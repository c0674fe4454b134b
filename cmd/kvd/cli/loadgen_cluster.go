package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
)

// clusterLoadFlags are the knobs of kvd loadgen k8s-cluster.
type clusterLoadFlags struct{ k8s.ClusterOptions }

func (f *clusterLoadFlags) addFlags(fs *pflag.FlagSet) {
	f.ClusterOptions = k8s.DefaultClusterOptions()
	fs.IntVar(&f.Nodes, "nodes", f.Nodes, "how many")
	fs.IntVar(&f.PodsPerNode, "pods-per-node", f.PodsPerNode, "pods that there are on each")
	fs.Float64Var(&f.PodRate, "pod-rate", f.PodRate, "pods created, and as many deleted, in a second (0: one for 500 nodes)")
	fs.IntVar(&f.Kinds, "kinds", f.Kinds, "resources that each API server caches, each by a connection and a watch")
	fs.IntVar(&f.Images, "images", f.Images, "images that each Node lists")
}

func (f *clusterLoadFlags) scenario(*loadgen.Options, func(string) bool) loadgen.Scenario {
	return &k8s.Cluster{ClusterOptions: f.ClusterOptions}
}

func clusterLoadHelp() scenarioHelp {
	return scenarioHelp{
		use:   "k8s-cluster",
		short: "A whole cluster of N nodes that does nothing special",
		help: help{
			Long: `
Plays everything that asks etcd for something in a cluster of so many nodes: the
kubelets' heartbeats; pods that come and go, with their Events and endpoints; ten
components that elect a leader, with two that stand by for each; and API servers,
with a connection and a watch for each resource, their own leases, health checks,
counts, compaction, and the check of each cache against etcd every five minutes.

WHAT HURTS. Nothing should: this is what the hardware must carry. 77 % of the
writes of 1000 nodes are Leases, but only 30 % of the bytes. In a cluster of 100
nodes a third of the writes are elections.

WHAT TO WATCH. The response times of all kinds; late_heartbeats; the 99th
percentile of fsync; how large the db becomes until compaction has run twice.

WHAT TO EXPECT. Writes a second, Events among them, bytes written, and reads: 100
nodes 20, 26 kB and 17; 1000 nodes 147, 240 kB and 29; 5000 nodes, as computed,
710, 1.2 MB and 82. The db stays at what there is plus five to ten minutes of that.
--time-scale 10 plays ten minutes in one.
` + loadgenCommon,
			Cost: loadCost,
			Example: `
  kvd loadgen k8s-cluster --nodes 100
  kvd loadgen k8s-cluster --nodes 1000 --time-scale 10 --duration 2m --html cluster.html
  kvd loadgen k8s-cluster --nodes 1000 --slo 'txn:p99<100ms,range:p99<1s,late_heartbeats==0'
  kvd loadgen k8s-cluster --nodes 500 --endpoints-policy leader --out leader.jsonl`,
			Exits: loadExits(),
		},
	}
}
