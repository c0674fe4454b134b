package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
)

// relistFlags are the knobs of kvd loadgen k8s-relist.
type relistFlags struct{ k8s.RelistOptions }

func (f *relistFlags) addFlags(fs *pflag.FlagSet) {
	f.RelistOptions = k8s.DefaultRelistOptions()
	fs.IntVar(&f.Objects, "objects", f.Objects, "pods that there are, and as many ConfigMaps")
	fs.IntVar(&f.Kinds, "kinds", f.Kinds, "resources that each API server caches; those behind the first two are empty")
	fs.DurationVar(&f.Period, "period", f.Period, "from one restart of the API servers to the next")
	fs.Int64Var(&f.PageSize, "page-size", f.PageSize, "objects of an answer (0: all in one)")
	fs.BoolVar(&f.Stream, "stream", false, "read them as one RangeStream, as API servers since 1.37 do (etcd 3.7)")
	fs.DurationVar(&f.First, "first", 0, "from the beginning of the load, warm-up included, to the first restart")
	fs.DurationVar(&f.Stagger, "stagger", 0, "from one API server's restart to the next one's (0: all at once)")
	fs.IntVar(&f.Nodes, "nodes", f.Nodes, "nodes whose heartbeats go on beside it (0: none)")
}

func (f *relistFlags) scenario(*loadgen.Options, func(string) bool) loadgen.Scenario {
	return &k8s.Relist{RelistOptions: f.RelistOptions}
}

func relistHelp() scenarioHelp {
	return scenarioHelp{
		use:   "k8s-relist",
		short: "What it costs when API servers begin anew",
		help: help{
			Long: `
Plays API servers that fill their caches: each reads everything of each of its 75
resources at once, on 75 connections, and watches it from there. That is
what happens after a restart, and after a compaction that their watches did not
live to see (410, "too old resource version"). It happens every --period here.

WHAT HURTS. All resources of all API servers are read at the same time: pages of
10,000 objects, one per resource and API server, are in the members' memory at once,
and heartbeats wait.

WHAT TO WATCH. "cache_filled": from the restart until a cache can be read; memory of
the servers; "txn leases".

WHAT TO EXPECT. With --stream memory is bounded by chunks in place of pages. With
--stagger 5s one API server fills its caches at a time: the peak is that of one.
` + loadgenCommon,
			Cost: loadCost,
			Example: `
  kvd loadgen k8s-relist --objects 20000
  kvd loadgen k8s-relist --objects 20000 --stream
  kvd loadgen k8s-relist --ab stagger=0s stagger=5s
  kvd loadgen k8s-relist --slo 'cache_filled pods:p99<10s,late_heartbeats==0'`,
			Exits: loadExits(),
		},
	}
}
