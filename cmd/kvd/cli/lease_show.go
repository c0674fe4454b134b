package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// leaseShowOptions are the flags and the argument of kvd lease show.
type leaseShowOptions struct {
	client      clientFlags
	id          uint64
	alternative uint64 // the same digits read as decimal
}

func (o *leaseShowOptions) addFlags(fs *pflag.FlagSet) { o.client.addFlags(fs) }

func newLeaseShowCmd(app *App, run func(context.Context, *App, leaseShowOptions) error) *cobra.Command {
	var o leaseShowOptions
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "One lease: what is left of it, what it was granted, its keys",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.id, o.alternative, err = ops.ParseLeaseID(args[0]); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Shows a lease with all of its keys. The ID is hexadecimal, as kvd and etcdctl
print it; the decimal of etcd's JSON is understood where it can't be mistaken.
Exits with 3 where there is no such lease: never granted, revoked, or expired.`,
		Cost: "One Status per member and one request that the leader answers from memory, with all keys of the lease.",
		Example: `
  kvd lease show 694d8257011f1b4d
  kvd lease show 694d8257011f1b4d -o json | jq -r '.keys[].key'`,
		Exits: []int{3, 4, 8},
	}.apply(cmd)
}

func runLeaseShow(ctx context.Context, app *App, o leaseShowOptions) error {
	return app.look(ctx, o.client, func(client *cluster.Client, view cluster.View) error {
		app.warnForeign(view)
		lease, err := ops.ShowLease(ctx, client, view, o.id)
		var missing *fault.Error
		if errors.As(err, &missing) && missing.Cause == cluster.CauseLeaseNotFound && o.alternative != 0 {
			return missing.WithHint(fmt.Sprintf("the digits were read as hexadecimal; if they are decimal, it is: kvd lease show %s", cluster.FormatID(o.alternative)))
		}
		if err != nil {
			return err
		}
		return app.Print(lease, func(w io.Writer) error { return drawLease(w, lease) })
	})
}

func drawLease(w io.Writer, l ops.Lease) error {
	columns := append(render.Columns[ops.Lease]{{Header: "lease", Value: func(x ops.Lease) string { return x.ID }}}, leaseTimeColumns()...)
	columns = append(columns, render.Column[ops.Lease]{Header: "keys", Right: true, Value: func(x ops.Lease) string { return strconv.Itoa(*x.Count) }})
	if err := columns.Write(w, []ops.Lease{l}); err != nil {
		return err
	}
	if l.Expired {
		fmt.Fprintln(w, "expired, and not revoked yet: the leader revokes it, and deletes its keys, when it gets to it")
	}
	for _, k := range l.Keys {
		fmt.Fprintf(w, "  %s\n", render.Safe(k))
	}
	return nil
}
