package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
)

// joinFlags are shared by what brings a new member in.
func joinFlags(fs *pflag.FlagSet, o *ops.JoinOptions) {
	fs.StringSliceVar(&o.ClientURLs, "client-urls", nil, "where the new member will serve clients, for its start line (default: a guess from the peer URLs)")
	fs.Uint64Var(&o.MaxLag, "max-lag", o.MaxLag, "committed entries that the new member may have still to apply when it is promoted")
	fs.IntVar(&o.MaxLearners, "max-learners", o.MaxLearners, "how many learners the servers take (their --max-learners)")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long the new member may take to start, and again to catch up (0: no limit)")
	fs.StringVar(&o.Start, "start", "", "`command` that starts the new member; without it kvd shows how, and waits until somebody has")
	fs.DurationVar(&o.HookTimeout, "hook-timeout", o.HookTimeout, "how long that command may take")
}

// memberAddOptions are the flags of kvd member add.
type memberAddOptions struct {
	ops.AddOptions
	client clientFlags
	plan   planFlags
}

func (o *memberAddOptions) addFlags(fs *pflag.FlagSet) {
	o.AddOptions = ops.DefaultAddOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	joinFlags(fs, &o.JoinOptions)
	fs.StringSliceVar(&o.PeerURLs, "peer-urls", nil, "where the other members will reach the new one, comma-separated or repeated")
	fs.BoolVar(&o.Voter, "voter", false, "add it as a voter at once; it counts for the quorum from then on, running or not")
	fs.BoolVar(&o.NoWait, "no-wait", false, "only add it, and show how to start it")
	fs.BoolVar(&o.NoPromote, "no-promote", false, "wait until it has caught up, and leave it a learner")
}

func newMemberAddCmd(app *App, run func(context.Context, *App, memberAddOptions) error) *cobra.Command {
	var o memberAddOptions
	cmd := &cobra.Command{
		Use:   "add NAME --peer-urls URL",
		Short: "Add a member: as a learner, wait until it has caught up, promote it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Adds a member as a learner, which does not count for the quorum; shows the exact
line to start it with; waits until it has started and caught up; promotes it; and
verifies the result. The data dir of the new member must be empty.

The new member is started by you, or by the command of --start. That is run without
a shell, must come back, may be run again, and finds KVD_MEMBER_NAME,
KVD_MEMBER_ID, KVD_PEER_URLS, KVD_START_ARGS and etcd's own variables (ETCD_NAME,
ETCD_INITIAL_CLUSTER, ETCD_INITIAL_CLUSTER_STATE, …) in its environment.

Interrupted anywhere, the same command goes on where it was. It refuses where the
quorum would be at risk: while voters are missing, or for a second learner.`,
		Cost: "Two raft entries for the change of the member list. The leader sends the new member a snapshot of the whole database.",
		Example: `
  kvd member add m4 --peer-urls https://10.0.0.4:2380 --dry-run    # how it would be started
  kvd member add m4 --peer-urls https://10.0.0.4:2380
  kvd member add m4 --peer-urls https://10.0.0.4:2380 --no-wait -o json | jq -r .detail.kvd
  kvd member add m4 --peer-urls https://10.0.0.4:2380 --yes --start 'ssh 10.0.0.4 systemctl start etcd'`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runMemberAdd(ctx context.Context, app *App, o memberAddOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanMemberAdd(client, view, o.AddOptions, app.Progress())
	})
}
