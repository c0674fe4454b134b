package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
)

// alarmRecoverOptions are the flags of kvd alarm recover.
type alarmRecoverOptions struct {
	ops.RecoverOptions
	client clientFlags
	plan   planFlags
	quota  quotaFlag
}

func (o *alarmRecoverOptions) addFlags(fs *pflag.FlagSet) {
	o.RecoverOptions = ops.DefaultRecoverOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	o.quota.addFlags(fs)
	fs.Float64Var(&o.TargetUsage, "target-usage", o.TargetUsage, "disarm once every member's file is below this share of its own quota")
	fs.Int64Var(&o.KeepRevisions, "keep-revisions", o.KeepRevisions, "revisions of history to leave in place; -1: kvd chooses, at most 1000")
	fs.Int64Var(&o.Compact.Step, "step", o.Compact.Step, "compact at most this many revisions at once (0: all at once)")
	fs.DurationVar(&o.Compact.Pause, "pause", o.Compact.Pause, "pause between two steps of the compaction")
	addDefragLookFlags(fs, &o.Defrag)
}

func newAlarmRecoverCmd(app *App, run func(context.Context, *App, alarmRecoverOptions) error) *cobra.Command {
	var o alarmRecoverOptions
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "From NOSPACE back to writable: compact, defrag, check, disarm, prove",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), app, o) },
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
The whole runbook as one plan. It looks at alarms, sizes and quotas; compacts and
leaves a margin of revisions, a smaller one where the margin itself would be too
much; defragments the members that gain, one at a time, the leader last and only
after leadership has moved away; checks that every member is below --target-usage
of its own quota; disarms exactly the NOSPACE alarms; and proves with a write
through every member that it worked.

Where live data itself is too big it says so, shows what to delete, and leaves
the alarm as it is. Interrupted anywhere, the same command finishes the job.`,
		Cost: "A compaction on all members, and a defragmentation of each member that gains: a member answers nobody while it is defragmented.",
		Example: `
  kvd alarm recover --dry-run          # what it would take
  kvd alarm recover --yes --report /var/log/kvd-recover.json
  kvd alarm recover --keep-revisions 0 # leave no history at all
  kvd alarm recover --step 50000 --pause 5s   # a long history, gently`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runAlarmRecover(ctx context.Context, app *App, o alarmRecoverOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanRecover(ctx, client, o.quota.assume(view), o.RecoverOptions, app.Progress())
	})
}
