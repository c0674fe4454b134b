package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
)

// alarmDisarmOptions are the flags of kvd alarm disarm.
type alarmDisarmOptions struct {
	ops.DisarmOptions
	client clientFlags
	plan   planFlags
	quota  quotaFlag
}

func (o *alarmDisarmOptions) addFlags(fs *pflag.FlagSet) {
	o.DisarmOptions = ops.DefaultDisarmOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	o.quota.addFlags(fs)
	fs.StringVar(&o.Member, "member", o.Member, "only alarms of this member: a name, or an ID (also of a member that was removed)")
	fs.StringVar(&o.Type, "type", o.Type, "which alarm: NOSPACE or CORRUPT")
	fs.BoolVar(&o.Force, "force", o.Force, "disarm also where the alarm would come straight back")
}

func newAlarmDisarmCmd(app *App, run func(context.Context, *App, alarmDisarmOptions) error) *cobra.Command {
	var o alarmDisarmOptions
	cmd := &cobra.Command{
		Use:   "disarm",
		Short: "Disarm alarms, unless they would come straight back",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd.Flags(), "member"); err != nil { // else it would be the alarms of all
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Disarms the NOSPACE alarms that are raised, one by one, and checks that no member
reports them any more. It refuses where the next write would raise the alarm
again: the quota counts the whole file, so that after a compaction the file has
to be defragmented first. CORRUPT is never touched unless --type says so.`,
		Cost: "One raft proposal per alarm, and Status requests; of members before etcd 3.6 also one /metrics.",
		Example: `
  kvd alarm disarm --dry-run
  kvd alarm disarm --yes
  kvd alarm disarm --member m3             # only the alarms of one member
  kvd alarm disarm --member 8e9e05c52164694d   # of a member that was removed`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runAlarmDisarm(ctx context.Context, app *App, o alarmDisarmOptions) error {
	o.Type = strings.ToUpper(o.Type)
	if o.Type != cluster.AlarmNoSpace && o.Type != cluster.AlarmCorrupt {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "alarm disarm", Msg: "--type " + o.Type + ": want NOSPACE or CORRUPT"}
	}
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanDisarm(client, o.quota.fill(ctx, client, view), o.DisarmOptions)
	})
}
