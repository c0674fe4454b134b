package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
)

// memberRemoveOptions are the flags of kvd member remove.
type memberRemoveOptions struct {
	ops.RemoveOptions
	client clientFlags
	plan   planFlags
}

func (o *memberRemoveOptions) addFlags(fs *pflag.FlagSet) {
	o.RemoveOptions = ops.DefaultRemoveOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	fs.Uint64Var(&o.MaxLag, "max-lag", o.MaxLag, "committed entries that a voter may have still to apply to count as one that carries on")
}

func newMemberRemoveCmd(app *App, run func(context.Context, *App, memberRemoveOptions) error) *cobra.Command {
	var o memberRemoveOptions
	cmd := &cobra.Command{
		Use:   "remove NAME|ID",
		Short: "Remove a member for good, unless that could cost the quorum",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Member = args[0]
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Removes a member: after its leadership was moved away, where it leads. It refuses
where the voters that are left would not be a quorum that is alive and has caught
up. It verifies that every voter has forgotten it, and that writes pass.

A removal is for good: the ID never comes back, and the data dir is of no use to
etcd any more. To put a new member in its place, kvd member replace does both.`,
		Cost: "One raft entry; an election where the member leads and can't be asked to hand over.",
		Example: `
  kvd member remove m3 --dry-run       # what it would mean for the quorum
  kvd member remove m3 --yes
  kvd member remove 8e9e05c52164694d   # one that never started has no name`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runMemberRemove(ctx context.Context, app *App, o memberRemoveOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanMemberRemove(client, view, o.RemoveOptions, app.Progress())
	})
}
