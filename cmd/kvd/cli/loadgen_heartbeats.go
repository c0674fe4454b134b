package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
)

// heartbeatFlags are the knobs of kvd loadgen k8s-heartbeats.
type heartbeatFlags struct{ k8s.HeartbeatOptions }

func (f *heartbeatFlags) addFlags(fs *pflag.FlagSet) {
	f.HeartbeatOptions = k8s.DefaultHeartbeatOptions()
	fs.IntVar(&f.Nodes, "nodes", f.Nodes, "how many")
	fs.StringVar(&f.Mode, "mode", f.Mode, "how a node says that it lives: lease, or node-status (as before Kubernetes 1.14)")
	fs.DurationVar(&f.Period, "period", f.Period, "from one heartbeat to the next; up to 4 % are added, as the kubelet does")
	fs.DurationVar(&f.StatusPeriod, "status-period", f.StatusPeriod, "with --mode lease: from one Node to the next")
	fs.IntVar(&f.Images, "images", f.Images, "images that each Node lists")
}

func (f *heartbeatFlags) scenario(*loadgen.Options, func(string) bool) loadgen.Scenario {
	return &k8s.Heartbeats{HeartbeatOptions: f.HeartbeatOptions}
}

func heartbeatsHelp() scenarioHelp {
	return scenarioHelp{
		use:   "k8s-heartbeats",
		short: "What the heartbeats of nodes cost: Leases, or whole Nodes",
		help: help{
			Long: `
Plays the kubelets of a cluster: each renews its Lease every 10 s, in a
transaction on the condition that nobody else has, and sends its Node every five
minutes. With --mode node-status it sends the whole Node each time, as Kubernetes
did before 1.14. Kubelets try five times, one after the other, and read their
Lease after a conflict.

WHAT HURTS. A Node that lists 50 images has 16 kB, of which a heartbeat changes a
hundred bytes. etcd keeps every version until it is compacted, which is five to
ten minutes: the history of heartbeats fills the quota, and each byte goes
through the log and to every member. The number of writes is the same in both
modes, so counting writes or fsyncs shows nothing.

WHAT TO WATCH. "written by the load", "bytes to the log" and "bytes to peers";
how the db grows; response times on slow disks. late_heartbeats counts those
answered after the next was due, missed_heartbeats those after the 40 s of the
Lease, failed_heartbeats those that failed
five times.

WHAT TO EXPECT. A Lease has 570 bytes, so with 50 images the mode lease writes
` + measuredLoadHeartbeatsStatusToLease50Images + ` times fewer bytes per node, and with 10 images ` + measuredLoadHeartbeatsStatusToLease10Images + ` times (measured, group
load of make bench). 1000 nodes are some 100 writes a second in either mode.
` + loadgenCommon,
			Cost: loadCost,
			Example: `
  kvd loadgen k8s-heartbeats --nodes 1000
  kvd loadgen k8s-heartbeats --nodes 1000 --mode node-status --out status.jsonl
  kvd loadgen k8s-heartbeats --nodes 500 --slo 'txn leases:p99<100ms,late_heartbeats==0'
  kvd loadgen k8s-heartbeats --nodes 200 --ab mode=node-status mode=lease --repeats 5`,
			Exits: loadExits(),
		},
	}
}
