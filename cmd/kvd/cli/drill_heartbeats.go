package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillHeartbeatsOptions are the flags of kvd drill heartbeats.
type drillHeartbeatsOptions struct {
	painFlags
	nodes int
}

func (o *drillHeartbeatsOptions) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.nodes, "nodes", 1000, "how many nodes say that they live")
	o.painFlags.addFlags(fs, drill.DefaultPainOptions())
}

func newDrillHeartbeatsCmd(app *App, run func(context.Context, *App, drill.Pain, drill.PainOptions) error) *cobra.Command {
	var o drillHeartbeatsOptions
	cmd := &cobra.Command{
		Use:   "heartbeats",
		Short: "Whole Nodes with each heartbeat, then Leases: what each costs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), app, drill.Heartbeats(o.nodes), o.options())
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts an etcd of real kvd serve processes on loopback and plays the kubelets of
--nodes nodes, each of which sends its whole Node every ten seconds, as all did
before Kubernetes 1.14: 16 kB, of which a heartbeat changes a hundred bytes. kvd
diagnose looks on, and finds that the history of what is written outgrows the
quota (KVD-CHURN-002). Then, on a fresh one, the same kubelets renew Leases and
send their Node every five minutes, and kvd diagnose finds that no more.

PROVED means: as many heartbeats, at least ten times fewer bytes put, eight times
fewer written to the logs, and the finding gone.` + painCommon,
		Cost: painCost("two processors for a minute, 100 MB of disk and 250 MB of memory per member"),
		Example: `
  kvd drill heartbeats
  kvd drill heartbeats --members 3 --nodes 500 --quota 1GiB
  kvd drill heartbeats -o json | jq '.figures[] | {what, pain, remedied, times}'`,
		Exits: painExits(),
	}.apply(cmd)
}
