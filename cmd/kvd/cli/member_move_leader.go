package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
)

// moveLeaderOptions are the flags of kvd member move-leader.
type moveLeaderOptions struct {
	ops.MoveLeaderOptions
	client clientFlags
	plan   planFlags
}

func (o *moveLeaderOptions) addFlags(fs *pflag.FlagSet) {
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
}

func newMoveLeaderCmd(app *App, run func(context.Context, *App, moveLeaderOptions) error) *cobra.Command {
	var o moveLeaderOptions
	cmd := &cobra.Command{
		Use:   "move-leader [NAME|ID]",
		Short: "Move the leadership to a voter, or to the best one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if o.To = args[0]; o.To == "" {
					return &fault.Error{Kind: fault.Usage, Cause: "argument", Op: "member move-leader", Msg: "the member is named by nothing",
						Hint: "if it comes from a variable, that is not set; to let kvd choose, leave it out"}
				}
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Moves the leadership to the voter that is named, or to the one that has applied
most. It waits until that has caught up and its disk is quick, and until every
voter that answers has known the new leader for a second. Any voter may be the
endpoint: kvd finds the leader.`,
		Cost: "Writes wait for a few milliseconds, longer where the next leader's disk is slow.",
		Example: `
  kvd member move-leader --dry-run
  kvd member move-leader m2 --yes
  kvd member move-leader --yes && kvd status`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runMoveLeader(ctx context.Context, app *App, o moveLeaderOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanMoveLeader(client, view, o.MoveLeaderOptions, app.Progress())
	})
}
