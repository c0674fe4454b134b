package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
)

// podFlags are the knobs of kvd loadgen k8s-pods.
type podFlags struct{ k8s.PodOptions }

func (f *podFlags) addFlags(fs *pflag.FlagSet) {
	f.PodOptions = k8s.DefaultPodOptions()
	fs.Float64Var(&f.Rate, "rate", f.Rate, "pods created, and as many deleted, in a second")
	fs.DurationVar(&f.Step, "step", f.Step, "from one of the eight steps of a pod's life to the next")
	fs.IntVar(&f.Nodes, "nodes", f.Nodes, "that they run on, and whose heartbeats go on beside it")
	fs.BoolVar(&f.StatusMerge, "status-merge", false, "the kubelet writes one status of a pod that starts, in place of three")
	fs.BoolVar(&f.ReadCache, "read-cache", false, "the kubelet reads a pod from the API server's cache before it writes its status")
}

func (f *podFlags) scenario(*loadgen.Options, func(string) bool) loadgen.Scenario {
	return &k8s.Pods{PodOptions: f.PodOptions}
}

func podsHelp() scenarioHelp {
	return scenarioHelp{
		use:   "k8s-pods",
		short: "What pods that come and go cost",
		help: help{
			Long: `
Plays the life of a Deployment's pods: created, bound to a node, three times
reported by its kubelet, deleted gracefully, reported once more, gone; with the
ReplicaSet, the Deployment, seven or eight Events, and the endpoints of a Service for
every other pod. Kubelets read a pod from etcd before they report it.

WHAT HURTS. A pod that came and went is 8 writes of it, 7 of Events and 4 of
others, and six and a half reads that only a quorum can answer. A job that makes
thousands of them at once is a burst of all that.

WHAT TO WATCH. "txn pods" and "range pods"; how the db grows; conflicts.

WHAT TO EXPECT. With --status-merge a pod is 6 writes and four and a half reads; with
--read-cache, two and a half reads. Endpoints are as many bytes as the pods
themselves: see k8s-endpoints.
` + loadgenCommon,
			Cost: loadCost,
			Example: `
  kvd loadgen k8s-pods --rate 20
  kvd loadgen k8s-pods --rate 20 --slo 'txn pods:p99<200ms,late_heartbeats==0'
  kvd loadgen k8s-pods --rate 20 --ab status-merge=false status-merge=true
  kvd loadgen k8s-pods --rate 200 --step 250ms --duration 30s`,
			Exits: loadExits(),
		},
	}
}
