package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
)

// memberUpdateOptions are the flags of kvd member update.
type memberUpdateOptions struct {
	ops.UpdateOptions
	client clientFlags
	plan   planFlags
}

func (o *memberUpdateOptions) addFlags(fs *pflag.FlagSet) {
	o.UpdateOptions = ops.DefaultUpdateOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	fs.StringSliceVar(&o.PeerURLs, "peer-urls", nil, "where the other members are to reach it, comma-separated or repeated")
	fs.BoolVar(&o.NoWait, "no-wait", false, "only tell the cluster, and do not wait until the others reach it there")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long it may take until the others reach it there (0: no limit)")
}

func newMemberUpdateCmd(app *App, run func(context.Context, *App, memberUpdateOptions) error) *cobra.Command {
	var o memberUpdateOptions
	cmd := &cobra.Command{
		Use:   "update NAME|ID --peer-urls URL",
		Short: "Give a member other peer URLs: its machine has a new address, or the URL was wrong",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Member = args[0]
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Tells the cluster where to reach a member from now on, waits until another member
reaches it there and it answers its clients, and verifies the result. The member
keeps its ID and its data; nothing is copied. It may be down meanwhile, as it is
where the address of its machine has changed.

Where the member listens, and where it tells clients to find it, are flags of its
own (--listen-peer-urls, --advertise-client-urls): restart it with those. What its
--initial-… flags say is read at its first start only, which is why changing them
there changes nothing. For no interruption at all, have it listen at both addresses
first (--listen-peer-urls=OLD,NEW), then update.

Interrupted anywhere, the same command goes on where it was. Without a quorum
nothing can be changed: give a machine its old address again (ip address add) until
it is.`,
		Cost: "One raft entry. The metrics of one member every half second while it waits.",
		Example: `
  kvd member update m2 --peer-urls https://10.0.0.12:2380 --dry-run
  kvd member update m2 --peer-urls https://10.0.0.12:2380
  kvd member update default --peer-urls http://10.0.0.1:2380 --yes    # was http://localhost:2380, before a second member joins`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runMemberUpdate(ctx context.Context, app *App, o memberUpdateOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanMemberUpdate(client, view, o.UpdateOptions, app.Progress())
	})
}
