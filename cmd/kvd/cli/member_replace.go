package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
)

// memberReplaceOptions are the flags of kvd member replace.
type memberReplaceOptions struct {
	ops.ReplaceOptions
	client clientFlags
	plan   planFlags
}

func (o *memberReplaceOptions) addFlags(fs *pflag.FlagSet) {
	o.ReplaceOptions = ops.DefaultReplaceOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	joinFlags(fs, &o.JoinOptions)
	fs.StringSliceVar(&o.PeerURLs, "peer-urls", nil, "where the other members will reach the new one (default: where the old one was)")
	fs.StringVar(&o.NewName, "new-name", "", "name of the new member (default: the old one's)")
	fs.StringVar(&o.StateDir, "state-dir", "", "`folder` for the record with which an interrupted replacement is finished (default $XDG_STATE_HOME/kvd)")
}

func newMemberReplaceCmd(app *App, run func(context.Context, *App, memberReplaceOptions) error) *cobra.Command {
	var o memberReplaceOptions
	cmd := &cobra.Command{
		Use:   "replace NAME|ID",
		Short: "Put a new member in the place of an old one, dead or alive",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Member = args[0]
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
The whole dance: look, move the leadership away, remove the old member, add the new
one as a learner, show how to start it (or start it, with --start), wait until it
has caught up, promote it, and verify with the member lists and a write. The
remedy for a member whose disk is gone, whose data are corrupt, or that crashes
because its log went backwards; nothing of its data is used.

Where the old member is alive and the new one has --peer-urls of its own, the new
one comes in before the old one goes, so that there is no moment with a voter less.
Else the old one goes first: etcd takes no new member while one of three is down.

It refuses unless every other voter is well. Interrupted anywhere, the same
command goes on where it was: what was done is seen in the cluster, and where the
old member was is kept in --state-dir. For --start see kvd member add.`,
		Cost: "Three raft entries, and the leader sends the new member a snapshot of the whole database. " +
			"Until the new one is promoted, the cluster bears one failure less where the old one had to go first.",
		Example: `
  kvd member replace m3 --dry-run                          # which order, and how to start the new one
  kvd member replace m3                                    # in the same place
  kvd member replace m3 --peer-urls https://10.0.0.9:2380 --new-name m9
  kvd member replace m3 --yes --start 'ssh m3 "systemctl stop etcd; mv /var/lib/etcd /var/lib/etcd.old; systemctl start etcd"'
  kvd member replace 8e9e05c52164694d --new-name m3        # one that never started`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runMemberReplace(ctx context.Context, app *App, o memberReplaceOptions) error {
	if o.StateDir == "" {
		var err error
		if o.StateDir, err = app.stateDir(); err != nil {
			return err
		}
	}
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanMemberReplace(client, view, o.ReplaceOptions, app.Progress())
	})
}

// stateDir is where kvd keeps what must outlive it, by the XDG base directory
// specification.
func (a *App) stateDir() (string, error) {
	if dir := a.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kvd"), nil
	}
	if home := a.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "kvd"), nil
	}
	return "", &fault.Error{Kind: fault.Usage, Cause: "state_dir", Op: "member replace",
		Msg: "no folder to keep the record of the replacement in: neither XDG_STATE_HOME nor HOME is set", Hint: "give one with --state-dir"}
}
