package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// loadgenCleanOptions are the flags of kvd loadgen clean.
type loadgenCleanOptions struct {
	loadgen.CleanOptions
	client clientFlags
}

func (o *loadgenCleanOptions) addFlags(fs *pflag.FlagSet) {
	o.CleanOptions = loadgen.DefaultCleanOptions()
	o.client.addFlags(fs)
	fs.StringVar(&o.Prefix, "prefix", o.Prefix, "delete what is under this")
	fs.BoolVar(&o.Compact, "compact", o.Compact, "compact afterwards, so that the space becomes free inside the file")
	fs.BoolVar(&o.DryRun, "dry-run", false, "count what would be deleted, and delete nothing")
}

func newLoadgenCleanCmd(app *App, run func(context.Context, *App, loadgenCleanOptions) error) *cobra.Command {
	var o loadgenCleanOptions
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Delete what loads have written, and compact",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.MustCompact = o.Compact && cmd.Flags().Changed("compact")
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Deletes all keys under ` + loadgen.Root + `, which is where every kvd loadgen writes and
nobody else does, some hundred at a time, and compacts the history, so that their
space becomes free inside the database file; kvd defrag makes the file smaller.
Deletes work under NOSPACE as well; the alarm stays until it is disarmed (kvd
alarm recover).

Compacting discards everybody's history up to now: a watcher or a reader of an
old revision has to start anew. --compact=false leaves it out. Where Kubernetes'
objects are in the cluster it is left out unless --compact is given: the API
servers compact by themselves. It is left out too where there is no key to delete;
--compact makes up for one that an earlier clean could not do. Keys on leases
that are deleted leave their leases, which run out by themselves.`,
		Cost: "One delete for each 500 keys, and a compaction.",
		Example: `
  kvd loadgen clean --dry-run
  kvd loadgen clean
  kvd loadgen clean --compact=false`,
		Exits: []int{4, 6, 8},
	}.apply(cmd)
}

func runLoadgenClean(ctx context.Context, app *App, o loadgenCleanOptions) error {
	return app.look(ctx, o.client, func(client *cluster.Client, _ cluster.View) error {
		report, err := loadgen.Clean(ctx, client, o.CleanOptions, app.Progress())
		if fault.KindOf(err) == fault.Usage {
			return err // nothing was done
		}
		return errors.Join(err, app.Print(report, func(w io.Writer) error {
			verb := "deleted"
			if o.DryRun {
				verb = "would delete"
			}
			fmt.Fprintf(w, "%s %s under %s\n", verb, count(int(report.Keys), "key"), report.Prefix)
			if report.CompactedTo > 0 {
				fmt.Fprintf(w, "compacted to revision %d\n", report.CompactedTo)
			}
			if report.NotCompacted != "" {
				fmt.Fprintf(w, "not compacted: %s; --compact does it all the same\n", report.NotCompacted)
			}
			return nil
		}))
	})
}
