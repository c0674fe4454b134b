package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
)

// endpointFlags are the knobs of kvd loadgen k8s-endpoints.
type endpointFlags struct{ k8s.EndpointOptions }

func (f *endpointFlags) addFlags(fs *pflag.FlagSet) {
	f.EndpointOptions = k8s.DefaultEndpointOptions()
	fs.IntVar(&f.Endpoints, "pods", f.Endpoints, "pods of the Service")
	fs.StringVar(&f.Mode, "mode", f.Mode, "how they are kept: endpoints (one object) or slices (EndpointSlices of a hundred)")
	fs.Float64Var(&f.PodRate, "pod-rate", f.PodRate, "pods replaced in a second; each changes the endpoints 2.5 times")
	fs.DurationVar(&f.Batch, "batch", 0, "for how long the controller collects changes (0: not at all)")
	fs.IntVar(&f.Watchers, "watchers", f.Watchers, "watches of the objects, by each API server")
	fs.IntVar(&f.Nodes, "nodes", f.Nodes, "nodes whose heartbeats go on beside it (0: none)")
}

func (f *endpointFlags) scenario(*loadgen.Options, func(string) bool) loadgen.Scenario {
	return &k8s.Endpoints{EndpointOptions: f.EndpointOptions}
}

func endpointsHelp() scenarioHelp {
	return scenarioHelp{
		use:   "k8s-endpoints",
		short: "What a rolling update costs: Endpoints, or EndpointSlices",
		help: help{
			Long: `
Plays the controller that keeps a Service's endpoints while its pods are replaced,
as in a rolling update, and the API servers that watch them.

WHAT HURTS. An Endpoints object lists all pods, about 157 bytes for each, and is
written whole when one of them changes: a roll of n pods writes n times n
endpoints. Each write goes to the log of every member, stays in the history until it
is compacted, and comes to every watcher with the object that it replaced.

WHAT TO WATCH. "written by the load" and bytes to the log; "watch_bytes" among the
counters; how the db grows.

WHAT TO EXPECT. With 1000 pods a change is 157 kB in one object and 18 kB in a
slice, ` + measuredLoadEndpointsToSlices1000Pods + ` times less (measured, group load of make bench). With 100 pods there is no
gain: one slice holds them all, and says more of each (` + measuredLoadEndpointsToSlices100Pods + ` times). With
--batch 1s changes of one slice are written once a second, however many.
Kubernetes' limits are 1000 addresses of an Endpoints object, and 100 of a slice.
` + loadgenCommon,
			Cost: loadCost,
			Example: `
  kvd loadgen k8s-endpoints
  kvd loadgen k8s-endpoints --mode slices --batch 1s
  kvd loadgen k8s-endpoints --ab mode=endpoints mode=slices --repeats 5
  kvd loadgen k8s-endpoints --pods 100 --ab mode=endpoints mode=slices`,
			Exits: loadExits(),
		},
	}
}
