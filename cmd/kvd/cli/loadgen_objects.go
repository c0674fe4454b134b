package cli

import (
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
)

// objectFlags are the knobs of kvd loadgen k8s-objects.
type objectFlags struct {
	k8s.ObjectOptions
	size, chunk byteSize
}

func (f *objectFlags) addFlags(fs *pflag.FlagSet) {
	f.ObjectOptions = k8s.DefaultObjectOptions()
	f.size = byteSize(f.Size)
	fs.Var(&f.size, "size", "what each ConfigMap holds")
	fs.Var(&f.chunk, "chunk", "keep each in parts of this size, of which one is written at a time (default: whole)")
	fs.IntVar(&f.Objects, "objects", f.Objects, "how many there are")
	fs.IntVar(&f.Writers, "writers", f.Writers, "how many write them, each its own share")
	fs.Float64Var(&f.Rate, "rate", f.Rate, "writes a second, of all writers together")
	fs.BoolVar(&f.UntilNoSpace, "until-nospace", false, "make new ones, until etcd refuses the next")
	fs.IntVar(&f.Foreground.Nodes, "nodes", f.Foreground.Nodes, "nodes whose heartbeats go on beside it (0: none)")
}

// scenario has a run that is to fill the quota go on until it is full.
func (f *objectFlags) scenario(o *loadgen.Options, changed func(string) bool) loadgen.Scenario {
	f.Size, f.Chunk = int64(f.size), int64(f.chunk)
	if f.UntilNoSpace {
		o.StopAtUsage = 0
		if !changed("duration") {
			o.Duration = 0
		}
		if !changed("warmup") {
			o.Warmup = 0
		}
	}
	return &k8s.Objects{ObjectOptions: f.ObjectOptions}
}

func objectsHelp() scenarioHelp {
	return scenarioHelp{
		use:   "k8s-objects",
		short: "What large ConfigMaps cost, and what is beside them",
		help: help{
			Long: `
Plays controllers that rewrite large ConfigMaps, beside the heartbeats of nodes.
With --chunk each is kept in parts under keys of their own, and an update writes
the one part that changed. With --until-nospace new ones are made until etcd
refuses the next.

WHAT HURTS. An update writes the whole object, however little of it changed, to
the log of each member and into the history. All writes share one log: while
a megabyte is on its way to disk and to the followers, the heartbeats behind it
wait. A request of more than 1.5 MiB is refused by the server, one of more than
2 MiB by the client already: two different errors, with which the load does not
begin; with --until-nospace they are among the causes in the report.

WHAT TO WATCH. The response time of "txn leases" beside "txn configmaps"; bytes to
the log and to peers; how the db grows; the 99th percentile of fsync and commit.

WHAT TO EXPECT. 5 writes a second of 1 MiB are 5 MiB/s to every member, and some
3 GB of history in the ten minutes until it is compacted: more than the default
quota. With --chunk 16KiB it is a sixty-fourth. With --until-nospace the report
says after how many writes and bytes the quota was reached, and how many were
refused, which are not counted as throughput.
` + loadgenCommon,
			Cost: loadCost + " With --until-nospace it leaves the cluster read-only (kvd alarm recover).",
			Example: `
  kvd loadgen k8s-objects --size 1MiB --rate 5
  kvd loadgen k8s-objects --size 1MiB --chunk 16KiB --out chunks.jsonl
  kvd loadgen k8s-objects --size 64KiB --rate 200 --until-nospace --nodes 0
  kvd loadgen k8s-objects --ab chunk=0 chunk=16KiB --members 3`,
			Exits: loadExits(),
		},
	}
}
