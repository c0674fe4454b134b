package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/codec"
)

// keysHistoryOptions are the flags and the arguments of kvd keys history.
type keysHistoryOptions struct {
	keyspace.HistoryOptions
	keyArgs
	ignore []string
}

func (o *keysHistoryOptions) addFlags(fs *pflag.FlagSet) {
	o.source.addFlags(fs)
	o.source.streams = true
	fs.StringSliceVar(&o.ignore, "ignore", []string{"managedFields"}, `fields to leave out, each with what is below it: managedFields, status, metadata.annotations`)
	fs.BoolVar(&o.Values, "values", false, "show each value in whole, decoded")
	fs.BoolVar(&o.ShowValues, "show-values", false, "also what a Secret holds")
}

func newKeysHistoryCmd(app *App, run func(context.Context, *App, keysHistoryOptions) error) *cobra.Command {
	var o keysHistoryOptions
	cmd := &cobra.Command{
		Use:   "history KEY [SOURCE]",
		Short: "What became of a key: each kept change, what was different, and who did it",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.read("keys history", args), o.check()); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Shows each change of a key that is still kept, the oldest first: created, updated,
its lease changed, touched (put again as it was), deleted, recreated. Of an object
it says which fields changed, and who changed them, where its managedFields tell;
etcd itself keeps neither who nor when. The first line says where history begins:
what was before the last compaction is gone, but for the last put before it.

KEY is written as kvd prints it (\x00 is a byte). SOURCE is a data directory, a
database file or a snapshot, in which history is exact; without it a running cluster
is asked. -o json is a line of JSON for each change. Exits with 3 where no change of
the key is kept.`,
		Cost: `From a cluster: some twenty small requests to one member and a watch from the oldest kept revision, for which
  that member reads its whole history once, as much as it warns of; a follower, unless --member names another. A file is
  read once; nothing is written to it.`,
		Example: `
  kvd keys history /registry/deployments/default/web
  kvd keys history /registry/deployments/default/web --ignore managedFields,status
  kvd keys history /registry/secrets/default/db backup.db      # values are masked
  kvd keys history /registry/pods/default/web-0 -o json | jq -c '[.revision,.what,.by[0].manager]'`,
		Exits: []int{3, 4, 5, 7, 8, 9},
	}.apply(cmd)
}

func (o *keysHistoryOptions) check() (err error) {
	o.Layout, o.Codec = o.source.layout(), codec.New()
	if o.Ignore, err = codec.ParseIgnore(o.ignore...); err != nil {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "keys history", Msg: "--ignore", Err: err}
	}
	return nil
}

func runKeysHistory(ctx context.Context, app *App, o keysHistoryOptions) error {
	if app.Global.Output == render.YAML {
		return noYAML("keys history", "")
	}
	src, err := o.source.open(ctx, app, "keys history", o.path)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // it was only read
	out := bufio.NewWriterSize(app.IO.Out, 64<<10)
	print := (&eventText{w: out}).line
	if app.Global.Output == render.JSON {
		print = jsonLines[*keyspace.Event](out)
	}
	bounds, changes, err := keyspace.History(ctx, src, o.key, o.HistoryOptions, print)
	err = errors.Join(err, out.Flush())
	if err == nil && changes == 0 {
		err = o.missing("keys history", fmt.Sprintf("%s keeps no change of it from revision %d to %d", src.Name(), bounds.Oldest, bounds.Head),
			"an older snapshot may have some: name it as SOURCE")
	}
	return err
}
