package cli

import (
	"bufio"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/codec"
)

// keysListOptions are the flags and the argument of kvd keys list.
type keysListOptions struct {
	keyspace.ListOptions
	source   sourceFlags
	path     string
	prefix   string
	lease    string
	min, max byteSize
}

func (o *keysListOptions) addFlags(fs *pflag.FlagSet) {
	o.source.addFlags(fs)
	o.source.streams = true
	fs.Int64Var(&o.Rev, "rev", 0, "list what there was at this revision (default: the latest)")
	fs.StringVar(&o.prefix, "prefix", "", `keys that begin so, written as kvd prints them: \x00 is a byte`)
	fs.StringSliceVar(&o.Resources, "resource", nil, "objects of this Kubernetes resource, as kubectl names it: pods, deployments.apps, widgets.example.com")
	fs.StringSliceVarP(&o.Namespaces, "namespace", "n", nil, "objects in this namespace")
	fs.StringVar(&o.Kind, "kind", "", "objects of this kind, as their values say: Pod")
	fs.StringVar(&o.lease, "lease", "", "keys on this lease, by its ID")
	fs.Var(&o.min, "min-size", "keys whose value has at least this size")
	fs.Var(&o.max, "max-size", "keys whose value has at most this size")
	fs.Int64Var(&o.Limit, "limit", 0, "list this many keys at most (0: all)")
	fs.BoolVar(&o.Values, "values", false, "show the values, decoded")
	fs.BoolVar(&o.ShowValues, "show-values", false, "with --values, also what Secrets hold")
}

func newKeysListCmd(app *App, run func(context.Context, *App, keysListOptions) error) *cobra.Command {
	var o keysListOptions
	cmd := &cobra.Command{
		Use:   "list [SOURCE]",
		Short: "The keys there are, or were at a revision; on request with their decoded values",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.path = args[0]
			}
			if err := o.check(cmd.Flags()); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Lists keys in order, as it goes: a table, or with -o json a line of JSON for
each. SOURCE is a data directory, a database file or a snapshot, compressed or
not; without it a running cluster is asked. --rev lists what there was at a
revision that has not been compacted, in a file as on a cluster.

The revision of a key is that of its last write, which Kubernetes calls its
resourceVersion. Objects are decoded to what the API shows: built-in kinds from
protocol buffers, custom resources from JSON; of an unknown kind its metadata is
shown, and of a value that is encrypted at rest, how. What Secrets hold is masked
unless --show-values is given. A key that is not UTF-8 is escaped in the table and
"key_base64" in JSON.`,
		Cost: `From a cluster: one member's keys without the quorum, in answers of about 1 MiB, at --limit-rate or less;
  values are read only for --values, --kind, --min-size, --max-size and --lease, and where --namespace is given without
  --resource, only those of keys in it, one request each. A file is read once, and values from where they are; nothing is written to it.`,
		Example: `
  kvd keys list --resource pods -n default
  kvd keys list --rev 120000 --resource deployments.apps        # what was there then?
  kvd keys list backup.db.zst --min-size 100KiB                 # large values in a snapshot
  kvd keys list --kind Widget --values -o json | jq .value.object.spec
  kvd keys list --lease 694d8257011f1b4d --limit 10`,
		Exits: []int{4, 5, 7, 8, 9},
	}.apply(cmd)
}

// check turns what was typed into the library's options.
func (o *keysListOptions) check(fs *pflag.FlagSet) error {
	const op = "keys list"
	errs := []error{o.source.check(op, o.path), o.Selection.Check(op)}
	o.Layout, o.Codec = o.source.layout(), codec.New()
	o.MinBytes, o.MaxBytes = int64(o.min), int64(o.max)
	prefix, err := unescape(op, "--prefix", o.prefix)
	o.Prefix = prefix
	errs = append(errs, err)
	if o.lease != "" {
		id, _, err := ops.ParseLeaseID(o.lease)
		o.Lease = int64(id) //nolint:gosec // the same bits
		if bad := (*fault.Error)(nil); errors.As(err, &bad) {
			errs = append(errs, bad.On(op, "--lease"))
		}
	}
	switch {
	case o.Rev < 0 || o.Limit < 0:
		errs = append(errs, &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Msg: "--rev and --limit can't be negative"})
	case o.max == 0 && fs.Changed("max-size"):
		errs = append(errs, flagMisuse(op, "--max-size", "0", "would let every value pass: leave it out, or give at least 1"))
	case o.max != 0 && o.max < o.min:
		errs = append(errs, &fault.Error{Kind: fault.Usage, Cause: "flag", Op: op, Msg: "--max-size is less than --min-size"})
	}
	return errors.Join(errs...)
}

// where says where objects were looked for, if some were asked for.
func (o *keysListOptions) where() string {
	if !o.Objects() {
		return ""
	}
	return "; objects were looked for under " + strings.Join(o.Layout.Prefixes, ", ") + ", and --kube-prefix adds to these"
}

func runKeysList(ctx context.Context, app *App, o keysListOptions) error {
	if app.Global.Output == render.YAML {
		return noYAML("keys list", "")
	}
	src, err := o.source.open(ctx, app, "keys list", o.path)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // it was only read
	out := bufio.NewWriterSize(app.IO.Out, 64<<10)
	print := keyLines(out, app.Global.Output == render.JSON, o.Values)
	sum, err := keyspace.List(ctx, src, o.ListOptions, print)
	err = errors.Join(err, out.Flush())
	if sum.More {
		app.warn("there are more than the %d keys that --limit lets pass", o.Limit)
	}
	if sum.Unsure > 0 {
		app.warn("left out, because encrypted values do not tell their kind: %d; ask by --resource", sum.Unsure)
	}
	if err == nil && sum.Keys == 0 {
		app.warn("there is no such key%s", o.where())
	}
	return err
}
