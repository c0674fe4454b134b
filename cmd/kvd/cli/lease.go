package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// newLeaseCmd groups what concerns leases.
func newLeaseCmd(app *App) *cobra.Command {
	return newGroupCmd("lease", "List leases, show one, revoke them",
		newLeaseListCmd(app, runLeaseList), newLeaseShowCmd(app, runLeaseShow), newLeaseRevokeCmd(app, runLeaseRevoke))
}

// leaseListOptions are the flags of kvd lease list.
type leaseListOptions struct {
	ops.LeaseOptions
	client clientFlags
	kube   kubePrefix
}

func (o *leaseListOptions) addFlags(fs *pflag.FlagSet) {
	o.LeaseOptions = ops.DefaultLeaseOptions()
	o.client.addFlags(fs)
	fs.BoolVar(&o.TTL, "ttl", false, "ask for the times of each lease: one request each")
	fs.BoolVar(&o.Keys, "keys", false, "count the keys of each lease, and of what kind they are: one request each, with all its keys in the answer")
	fs.IntVar(&o.Limit, "limit", o.Limit, "with --ttl or --keys, ask for this many leases at most, those that expire first (0: all)")
	fs.IntVar(&o.Rate, "rate", o.Rate, "with --ttl or --keys, requests per second at most")
	o.kube.addFlags(fs)
}

func newLeaseListCmd(app *App, run func(context.Context, *App, leaseListOptions) error) *cobra.Command {
	var o leaseListOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The leases; on request what is left of each, and its keys",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Limit < 0 || o.Rate <= 0 {
				return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "lease list", Msg: "--limit can't be negative, and --rate must be above 0"}
			}
			o.Layout = o.kube.in(o.Layout)
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Lists the leases. A lease lives as long as somebody renews it; when it expires,
the leader revokes it, which deletes its keys. etcd tells the IDs of all with one
request and everything else one by one, so that --ttl and --keys say what they
will cost before they begin.

A lease that is "expired" is past its time and not revoked yet: the leader
revokes a thousand per second, and none while it has no majority. After a change
of the leader every lease has its whole time again. Under Kubernetes, leases are
what makes Events and the API servers' own records (masterleases) go away; the
Lease objects of nodes have nothing to do with them.`,
		Cost: `One Status per member and one list of IDs, from the leader's memory. --ttl and --keys: one request per
  lease to the leader, --limit at most, at no more than --rate per second; with --keys each answer has all keys of its
  lease (kube-apiserver puts up to 1000 Events on one), and one more request counts all keys.`,
		Example: `
  kvd lease list
  kvd lease list --ttl --limit 20             # the twenty that expire first
  kvd lease list --keys --limit 0             # every lease: which share of the keys expires?
  kvd lease list --keys -o json | jq '.resources'`,
		Exits: []int{4, 6, 8},
	}.apply(cmd)
}

func runLeaseList(ctx context.Context, app *App, o leaseListOptions) error {
	return app.look(ctx, o.client, func(client *cluster.Client, view cluster.View) error {
		app.warnForeign(view)
		list, err := ops.ListLeases(ctx, client, view, o.LeaseOptions, app.Progress())
		if list.Requests == 0 {
			return err
		}
		return errors.Join(app.Print(list, func(w io.Writer) error { return drawLeases(w, list) }), err)
	})
}
