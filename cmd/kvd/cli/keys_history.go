package cli

import (
	"bufio"
	"context"
	"encoding/json"
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
	source sourceFlags
	key    string
	path   string
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
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.key, err = unescape("keys history", "KEY", args[0]); err != nil {
				return err
			}
			if len(args) > 1 {
				o.path = args[1]
			}
			if err := o.check(); err != nil {
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

func (o *keysHistoryOptions) check() error {
	const op = "keys history"
	o.Layout, o.Codec = o.source.layout(), codec.New()
	var err error
	if o.Ignore, err = codec.ParseIgnore(o.ignore...); err != nil {
		err = &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Msg: "--ignore", Err: err}
	}
	if o.key == "" {
		err = errors.Join(err, &fault.Error{Kind: fault.Usage, Cause: "argument", Op: op, Msg: "the empty key is none of etcd's"})
	}
	return errors.Join(o.source.check(op, o.path), err)
}

func runKeysHistory(ctx context.Context, app *App, o keysHistoryOptions) error {
	if app.Global.Output == render.YAML {
		return flagMisuse("keys history", "-o", "yaml", "is no form of a stream: -o table, or -o json for a line of JSON each")
	}
	src, err := o.source.open(ctx, app, "keys history", o.path)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // it was only read
	out := bufio.NewWriterSize(app.IO.Out, 64<<10)
	print := (&eventText{w: out}).line
	if app.Global.Output == render.JSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		print = func(e *keyspace.Event) error { return enc.Encode(e) }
	}
	bounds, changes, err := keyspace.History(ctx, src, o.key, o.HistoryOptions, print)
	err = errors.Join(err, out.Flush())
	if err == nil && changes == 0 {
		err = &fault.Error{Kind: fault.Wanting, Cause: "no_such_key", Op: "keys history", Subject: fmt.Sprintf("%q", o.key),
			Msg:  fmt.Sprintf("%s keeps no change of it from revision %d to %d", src.Name(), bounds.Oldest, bounds.Head),
			Hint: "an older snapshot may have some: name it as SOURCE"}
	}
	return err
}
