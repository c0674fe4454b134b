package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// defragOptions are the flags of kvd defrag.
type defragOptions struct {
	ops.DefragOptions
	client  clientFlags
	plan    planFlags
	timer   scheduleFlags
	quota   quotaFlag
	minGain byteSize
	timeout autoDuration
}

func (o *defragOptions) addFlags(fs *pflag.FlagSet) {
	o.DefragOptions = ops.DefaultDefragOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	o.timer.addFlags(fs)
	o.quota.addFlags(fs)
	fs.StringArrayVar(&o.Members, "member", nil, "only this member, by name or ID (can be given several times; default: every voter)")
	fs.StringVar(&o.If, "if", "", "only members for which this `rule` holds, see the examples")
	fs.Var(&o.minGain, "min-gain", "leave members alone that would give back less (default: 1MiB or 1 % of the file, the larger), whatever --if says")
	fs.Uint64Var(&o.MaxLag, "max-lag", o.MaxLag, "committed raft entries that any voter may have still to apply")
	fs.DurationVar(&o.Settle, "settle", o.Settle, "pause between two members and around a move of the leadership")
	fs.Var(&o.timeout, "timeout", "how long to wait for a member's own answer before its metrics are followed; auto: 30s and 1s per 10 MiB in use")
	fs.BoolVar(&o.ContinueOnError, "continue-on-error", false, "go on with the next member after one failed")
	fs.StringVar(&o.BeforeMember, "before-member", "", "`command` to run before each member; if it fails, the member is skipped, and the run ends with 5, or with 6 where anything was done")
	fs.StringVar(&o.AfterMember, "after-member", "", "`command` to run after each member; if it fails, the run stops (exit 6)")
	fs.DurationVar(&o.HookTimeout, "hook-timeout", o.HookTimeout, "how long each of these commands may take")
	addDefragLookFlags(fs, &o.DefragOptions)
}

// addDefragLookFlags adds what says where to look for things that a cluster does not
// tell of its members, for every command that defragments.
func addDefragLookFlags(fs *pflag.FlagSet, o *ops.DefragOptions) {
	fs.StringVar(&o.DataDir, "data-dir", "", "data directory of the member on this machine, to look for room for the copy (default: found by itself)")
	fs.BoolVar(&o.SkipDiskCheck, "skip-disk-check", false, "do not look for room for the copy")
	fs.StringArrayVar(&o.MetricsURLs, "metrics-url", nil, "`NAME=URL` of a member that serves its metrics elsewhere than at its client URL")
}

// complete carries over what has a type of its own on the command line, and
// reads the rule before anything is sent.
func (o *defragOptions) complete(fs *pflag.FlagSet) error {
	if fs.Changed("min-gain") {
		o.MinGain = int64(o.minGain)
	}
	if o.quota.given {
		o.Quota = int64(o.quota.size)
	}
	o.Timeout = o.timeout.d
	_, err := ops.CompileDefragRule(o.If)
	return errors.Join(notEmpty(fs, "if", "before-member", "after-member"), err)
}

func newDefragCmd(app *App, run func(context.Context, *App, defragOptions) error) *cobra.Command {
	var o defragOptions
	cmd := &cobra.Command{
		Use:   "defrag",
		Short: "Give free pages back to the disk, one member at a time, the leader last",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.complete(cmd.Flags()), o.timer.check(cmd.Flags())); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Rewrites the files of the members that gain from it: followers one by one, then
the leader after its leadership was moved to a voter that is done. The gain is
predicted before (file size less what is in use) and measured after.

Before every step it looks again: every voter answers, all agree on a leader, no
voter lags, no CORRUPT alarm, no defragmentation under way, room for the copy
where the disk can be seen. NOSPACE is no reason to refuse. It stops at the first
failure. A member that does not answer in time goes on defragmenting, since that
can't be cancelled: its metrics are followed until its own end.

Rules (--if) are conditions in db_size, db_in_use, db_free, quota, quota_free
(bytes), usage_ratio, free_ratio, in_use_ratio (0 to 1), raft_lag, revision,
is_leader, nospace, name, version, with KiB, MiB, GiB and bytes("200MiB"). The
quota is each member's own, and versions compare by number: version >= "3.10".
The names of etcd-defrag work too: dbSize, dbSizeInUse, dbSizeFree, dbQuota,
dbQuotaUsage.

The commands are run without a shell and find KVD_MEMBER_NAME, KVD_MEMBER_ID,
KVD_MEMBER_ENDPOINT, KVD_DB_SIZE_BYTES and KVD_DB_IN_USE_BYTES in their
environment; after a member also KVD_DB_SIZE_BEFORE_BYTES.

With --schedule it stays and runs again and again, each time with a fresh plan;
that needs no --yes. Of several that run on one cluster one is elected and acts,
the others say whose run it is and stand by. A tick during a run, or one that was
missed by more than a minute (the machine slept), is dropped and counted. Where
the cluster does not answer at a tick, it is tried again until the window ends,
without a window for 10 minutes, and never past the next tick; then that tick is
skipped as unavailable. A failed run is logged, and the next tick tries again.
SIGTERM lets the member in hand finish (exit 0), a second one leaves. A time that
the clock skips runs at the first instant after; one that comes twice runs once.

A rule does not replace --min-gain: a file full of live data is over 80 % of its
quota as well, and to rewrite it would stall a member for nothing.`,
		Cost: "A member answers no client while it is defragmented: about 1 s per 100 MiB in use on a fast disk, ten times that on a slow one. " +
			"It needs room for a second copy of what is in use on its own disk. The plan itself costs one status and one /metrics per member.",
		Example: `
  kvd defrag --dry-run                            # who would gain how much
  kvd defrag --yes --if 'usage_ratio > 0.8'       # only above 80 % of the quota
  kvd defrag --yes --if 'free_ratio > 0.5'        # only if half of the file is free
  kvd defrag --yes --if 'dbQuotaUsage > 0.8 || dbSizeFree > 200*1024*1024'
  kvd defrag --yes --if 'usage_ratio > 0.5 && db_free > 512*MiB && !nospace'
  kvd defrag --yes --member m2 --settle 1m
  kvd defrag --yes --before-member '/opt/lb drain' --after-member '/opt/lb undrain'
  kvd defrag --schedule '30 3 * * *' --timezone Europe/Berlin --if 'usage_ratio > 0.8'
  kvd defrag --schedule '@every 1h' --window 22:00-05:00 --min-gain 100MiB --metrics-listen :9389
  kvd defrag --schedule '30 3 * * sun' --dry-run  # the next 5 runs, and the plan as of now`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runDefrag(ctx context.Context, app *App, o defragOptions) error {
	if o.timer.on() {
		return app.runScheduled(ctx, scheduled{
			op: "defrag", flags: o.timer, client: o.client, plan: o.plan, urls: o.MetricsURLs, blindPause: o.Settle,
			makePlan: func(ctx context.Context, client *cluster.Client, view cluster.View, sink progress.Sink) (*plan.Plan, error) {
				return ops.PlanDefrag(ctx, client, view, o.DefragOptions, sink)
			},
		})
	}
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		p, err := ops.PlanDefrag(ctx, client, view, o.DefragOptions, app.Progress())
		if err == nil {
			besideSchedule(client, view, p)
		}
		return p, err
	})
}
