package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillLeaderOptions are the flags of kvd drill leader.
type drillLeaderOptions struct {
	painFlags
	nodes int
}

func (o *drillLeaderOptions) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.nodes, "nodes", 500, "how many nodes say that they live")
	d := drill.DefaultPainOptions()
	d.Members = 3
	o.painFlags.addFlags(fs, d)
	fs.Lookup("members").Usage = "members of each cluster, 3 to 5"
}

func newDrillLeaderCmd(app *App, run func(context.Context, *App, drill.Pain, drill.PainOptions) error) *cobra.Command {
	var o drillLeaderOptions
	cmd := &cobra.Command{
		Use:   "leader",
		Short: "A leader that stands still: who waits, and for whom it is moved away first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), app, drill.Leader(o.nodes), o.options())
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts an etcd of real kvd serve processes on loopback with the heartbeats of
--nodes nodes, through the followers, and has the leader stand still (SIGSTOP)
for a third of --duration, as one whose machine has no processor for it or whose
disk hangs. Nothing is written until the others have waited for the election
timeout, two seconds here, and chosen another leader. kvd diagnose looks on, and
finds that the leader does not stay (KVD-RAFT-003). Then, on a fresh one, the
leadership is moved to another member first, as kvd member move-leader does, and
the same member stands still for as long: a follower, which nobody waits for.

PROVED means: as many heartbeats due, no more than half of the elections and of
the writes that waited for a second or longer, and the finding gone. A --duration
below 12 s is too short for an election.` + painCommon,
		Cost: painCost("two processors for a minute, 70 MB of disk and 150 MB of memory per member"),
		Example: `
  kvd drill leader
  kvd drill leader --members 5 --duration 30s
  kvd drill leader -o json | jq '.pain.waits, .remedied.waits'`,
		Exits: painExits(),
	}.apply(cmd)
}
