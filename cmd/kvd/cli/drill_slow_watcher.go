package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillWatcherOptions are the flags of kvd drill slow-watcher.
type drillWatcherOptions struct {
	painFlags
	informers int
	rate      float64
}

func (o *drillWatcherOptions) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.informers, "informers", 200, "who follow the pods; one of them reads slowly")
	fs.Float64Var(&o.rate, "rate", 10, "updates of pods in a second")
	o.painFlags.addFlags(fs, drill.DefaultPainOptions())
}

func newDrillWatcherCmd(app *App, run func(context.Context, *App, drill.Pain, drill.PainOptions) error) *cobra.Command {
	var o drillWatcherOptions
	cmd := &cobra.Command{
		Use:   "slow-watcher",
		Short: "One slow reader on a stream that others share, then a stream for each",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), app, drill.SlowWatcher(o.informers, o.rate), o.options())
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts an etcd of real kvd serve processes on loopback and has --informers
readers follow its pods by watches that share one gRPC stream, as those of one
client do. One of them takes 10 KiB in a second, and so the stream is read no
faster. etcd keeps 128 answers for a stream; once they are full all watches on
it lag, also those of readers that are quick. kvd diagnose looks on, and finds
many watchers that starve on few streams (KVD-WATCH-002, with 128 on one or
more). Then, on a fresh one, each reader has a stream of its own, and the slow
one waits alone. To it that is no remedy: it has to read faster, or be sent less
(kvd loadgen k8s-watch --shards, --prev-kv=false).

PROVED means: as many updates, a third fewer of the events that quick readers had
not got at the end, a quarter or less of the watchers that
lag, and the finding gone.` + painCommon,
		Cost: painCost("two processors for a minute, 100 MB of disk and 300 MB of memory per member"),
		Example: `
  kvd drill slow-watcher
  kvd drill slow-watcher --informers 300 --rate 5
  kvd drill slow-watcher -o json | jq '.pain.gauges, .remedied.gauges'`,
		Exits: painExits(),
	}.apply(cmd)
}
