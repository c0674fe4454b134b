package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
)

// memberPromoteOptions are the flags of kvd member promote.
type memberPromoteOptions struct {
	ops.PromoteOptions
	client clientFlags
	plan   planFlags
}

func (o *memberPromoteOptions) addFlags(fs *pflag.FlagSet) {
	o.PromoteOptions = ops.DefaultPromoteOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	fs.Uint64Var(&o.MaxLag, "max-lag", o.MaxLag, "committed entries that the learner may have still to apply")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long the learner may take to catch up (0: no limit)")
}

func newMemberPromoteCmd(app *App, run func(context.Context, *App, memberPromoteOptions) error) *cobra.Command {
	var o memberPromoteOptions
	cmd := &cobra.Command{
		Use:   "promote NAME|ID",
		Short: "Make a voter of a learner, once it has caught up",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Member = args[0]
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Waits until a learner has applied all but the last few entries, makes a voter of
it, and verifies the result with a write through it. etcd itself promotes a
learner that has nine tenths of the leader's log, which may be minutes behind.`,
		Cost: "One raft entry, and Status requests while it waits.",
		Example: `
  kvd member promote m4 --dry-run
  kvd member promote m4 --yes --timeout 5m
  kvd member promote 8e9e05c52164694d`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runMemberPromote(ctx context.Context, app *App, o memberPromoteOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanMemberPromote(client, view, o.PromoteOptions, app.Progress())
	})
}
