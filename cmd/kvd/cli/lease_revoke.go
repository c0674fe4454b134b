package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
)

// leaseRevokeOptions are the flags and arguments of kvd lease revoke.
type leaseRevokeOptions struct {
	ops.LeaseRevokeOptions
	client clientFlags
	plan   planFlags
	kube   kubePrefix
}

func (o *leaseRevokeOptions) addFlags(fs *pflag.FlagSet) {
	o.LeaseRevokeOptions = ops.DefaultLeaseRevokeOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	fs.BoolVar(&o.WithoutKeys, "without-keys", false, "all leases that no key is on, instead of those that are named")
	fs.DurationVar(&o.GrantedOver, "granted-over", 0, "with --without-keys, only those that were granted for longer than this")
	fs.IntVar(&o.Rate, "rate", o.Rate, "leases per second at most that are asked for, and that are revoked (1 to 1000)")
	fs.StringSliceVar(&o.MeanIt, "i-mean-it", nil, "what is protected and is to go with its lease all the same, by the `name` that the refusal gives it")
	o.kube.addFlags(fs)
}

func newLeaseRevokeCmd(app *App, run func(context.Context, *App, leaseRevokeOptions) error) *cobra.Command {
	var o leaseRevokeOptions
	cmd := &cobra.Command{
		Use:   "revoke ID... | --without-keys",
		Short: "Revoke leases: those named with their keys, or all that have none; also under NOSPACE",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.IDs, o.Layout = args, o.kube.in(o.Layout)
			if err := errors.Join(notEmpty(cmd.Flags(), "kube-prefix", "i-mean-it"), o.Check()); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Revokes leases. With --without-keys it is the way out where leases that nobody
uses fill the file: a client that grants one for each request, or does not give
them back. Etcd takes revocations under NOSPACE, and refuses to grant leases.

The plan asks for each lease, and shows how many have no key, of how many, and
how long they were granted for. Each is asked for again right before it is
revoked, and kept if a key is on it by then. A key that comes onto it between
that answer and the revocation, a moment of milliseconds, goes with it: etcd's
API has no condition for a revocation. A lease that was granted after the plan
was made is never touched. At the end the leases are counted again. The same
command after an interruption, of whatever kind, revokes what is left.

Revoking a lease by its ID deletes the keys that are on it, in one transaction.
The plan shows how many and the first of them, and it is kept if it has others
by the time it is its turn. What keys delete protects is refused here too unless
--i-mean-it names it.

What leases take of the file becomes free pages at once, without a compaction.
The file gets smaller only by kvd defrag, and an alarm goes only by kvd alarm
recover, which does both. Afterwards find the client: kvd wal dump DATA-DIR
--type lease_grant shows when it granted them, and as which user.`,
		Cost: `Planning: one list of IDs, and one request per lease that the leader answers from memory, with all keys of that
  lease in the answer. Running: the same request again and one raft proposal for each lease, one after the other. Both at
  no more than --rate per second, and slower by up to a factor of 8 where a revocation takes more than twice as long as
  a small write took before.`,
		Example: `
  kvd lease revoke --without-keys --dry-run                    # how many, and how long they were granted for
  kvd lease revoke --without-keys --granted-over 10m --yes
  kvd lease revoke --without-keys --rate 100 --report /var/log/kvd-leases.json --yes
  kvd lease revoke 694d8257011f1b4d 694d8257011f1b52 --dry-run # which keys would go with them?
  kvd alarm recover --yes                                      # afterwards, under NOSPACE`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

func runLeaseRevoke(ctx context.Context, app *App, o leaseRevokeOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanLeaseRevoke(ctx, client, view, o.LeaseRevokeOptions, app.Progress())
	})
}
