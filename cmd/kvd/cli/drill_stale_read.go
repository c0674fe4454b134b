package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillStaleOptions are the flags of kvd drill stale-read.
type drillStaleOptions struct {
	drill.StaleOptions
}

func (o *drillStaleOptions) addFlags(fs *pflag.FlagSet) {
	o.StaleOptions = drill.DefaultStaleOptions()
	fs.IntVar(&o.Members, "members", o.Members, "members of the cluster, 3 to 5")
	fs.IntVar(&o.Reads, "reads", o.Reads, "reads of each kind, through each member, at each moment")
	fs.IntVar(&o.Writes, "writes", o.Writes, "writes while the follower is cut off")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long a read is waited for")
	addStageFlags(fs, &o.Keep, &o.Dir)
}

func newDrillStaleReadCmd(app *App, run func(context.Context, *App, drillStaleOptions) error) *cobra.Command {
	var o drillStaleOptions
	cmd := &cobra.Command{
		Use:   "stale-read",
		Short: "Cut a follower off, and see which reads are old and which are refused",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), app, o) },
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts a cluster of real kvd serve processes on loopback and stops a follower
from hearing its peers, while its clients still reach it: what a broken network
between members does. (A process that is itself stopped answers nothing, so that
nothing could be seen on it.) Then writes through the leader, and reads through
both: a serializable read is answered by the follower from what it has, at once,
however old that is; a linearizable one asks the leader first, and is not
answered at all. Nor is a serializable one that asks for a leader with etcd's
client (WithRequireLeader), which is how a client protects itself. Then mends
the network, waits until the follower has caught up, and reads again. Latencies
of both kinds before, meanwhile and after.

It touches no other cluster, and leaves no process and no file behind, also when
it is interrupted or fails. With --keep the members are first told to reach each
other directly, since it is this process that stands between them.

What is told comes from the report that -o json prints, number by number.`,
		Cost: "Two processors for some fifteen seconds, some 70 MB of disk and 100 MB of memory per member. " +
			"Nothing outside the machine, and no cluster but its own.",
		Example: `
  kvd drill stale-read
  kvd drill stale-read --reads 1000 --writes 500
  kvd drill stale-read -o json | jq '.during.reads[] | {through, kind, old, fresh, revisions_behind}'`,
		Exits: []int{3, 4, 9}, // 9: kvd diagnose could not look
	}.apply(cmd)
}

func runDrillStaleRead(ctx context.Context, app *App, o drillStaleOptions) error {
	return playDrill(ctx, app, tellStale, func(ctx context.Context, told func(drill.StaleReport, drill.Phase)) (drill.StaleReport, error) {
		o.Told = told
		return drill.StaleRead(ctx, o.StaleOptions, app.Progress())
	})
}
