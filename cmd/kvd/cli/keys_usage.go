package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
)

// keysUsageOptions are the flags and the argument of kvd keys usage.
type keysUsageOptions struct {
	keyspace.BreakdownOptions
	source sourceFlags
	path   string // SOURCE, empty for a running member
	by     string
	sample byteSize
	prefix string
	top    int
	since  string
	watch  time.Duration
}

const keysUsageOp = "keys usage"

func (o *keysUsageOptions) addFlags(fs *pflag.FlagSet) {
	o.BreakdownOptions = keyspace.DefaultBreakdownOptions()
	o.by, o.sample = string(o.By), byteSize(o.SampleBytes)
	o.source.addFlags(fs)
	fs.StringVar(&o.by, "by", o.by, "groups of keys: tree (by the segments of their names), prefix, resource, namespace, lease or kind")
	fs.IntVar(&o.Depth, "depth", o.Depth, "levels of the tree, or segments of a prefix")
	fs.IntVar(&o.top, "top", 10, "how many groups to list, of a tree on each level; 0 lists all (json has all)")
	fs.StringVar(&o.prefix, "prefix", "", `only keys with this prefix, written as kvd prints it: \x00 is a byte`)
	fs.BoolVar(&o.Exact, "exact", false, "of a member: read every live value instead of a sample")
	fs.Var(&o.sample, "sample", "of a member: read at most this much, names of keys and a sample of the values")
	fs.StringVar(&o.since, "since", "", "an earlier report (-o json) to show the growth from")
	fs.DurationVar(&o.watch, "watch", 0, "of a member: count who writes, for so long")
}

func newKeysUsageCmd(app *App, run func(context.Context, *App, keysUsageOptions) error) *cobra.Command {
	var o keysUsageOptions
	cmd := &cobra.Command{
		Use:   "usage [SOURCE]",
		Short: "What the space is used for: by prefix, resource, namespace, lease or kind",
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
	return keysUsageHelp().apply(cmd)
}

// check turns what was typed into the library's options, and finds flags that make
// no sense together, before anything is read.
func (o *keysUsageOptions) check(fs *pflag.FlagSet) error {
	o.By, o.Layout, o.SampleBytes = keyspace.By(o.by), o.source.layout(), int64(o.sample)
	var err error
	if o.Prefix, err = unescape(keysUsageOp, "--prefix", o.prefix); err != nil {
		return err
	}
	usage := func(format string, args ...any) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: keysUsageOp, Msg: fmt.Sprintf(format, args...)}
	}
	byRecord := o.By == keyspace.ByLease || o.By == keyspace.ByKind
	switch o.By {
	case keyspace.ByTree, keyspace.ByPrefix, keyspace.ByResource, keyspace.ByNamespace, keyspace.ByLease, keyspace.ByKind:
	default:
		return usage("--by %q: want tree, prefix, resource, namespace, lease or kind", o.by)
	}
	switch {
	case o.Depth < 1 || o.Depth > 100:
		return usage("--depth %d: want 1 to 100", o.Depth)
	case o.top < 0:
		return usage("--top can't be negative")
	case o.sample <= 0:
		return usage("--sample needs a size")
	case o.watch < 0:
		return usage("--watch needs a time above zero")
	case o.path != "" && (o.Exact || fs.Changed("sample") || o.watch > 0):
		return usage("--exact, --sample and --watch are for a running cluster: a file is read as a whole")
	case o.path == "" && byRecord && !o.Exact && o.watch == 0:
		return usage("--by %s of a running cluster needs --exact: it is not in the names of the keys, so that every value must be read", o.By)
	case o.watch > 0 && (o.Exact || o.since != "" || fs.Changed("sample")):
		return usage("--watch counts what is written, not what is stored: no --exact, --sample or --since with it")
	}
	return o.source.check(keysUsageOp, o.path)
}

func runKeysUsage(ctx context.Context, app *App, o keysUsageOptions) (err error) {
	earlier, err := o.earlier()
	if err != nil {
		return err
	}
	s, err := o.source.open(ctx, app, keysUsageOp, o.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if o.watch > 0 {
		return watchWrites(ctx, app, s, o)
	}
	var b keyspace.Breakdown
	switch from := s.Source.(type) {
	case *keyspace.FileSource:
		b, err = keyspace.BreakdownFile(ctx, from, o.BreakdownOptions)
	case *keyspace.LiveSource:
		if o.Exact {
			app.warn("--exact reads every live value, at most the %s in use, from %s at %s/s or less",
				sizeText(s.member.Status.DBInUse), s.member.Label(), sizeText(int64(o.source.rate)))
		}
		b, err = keyspace.BreakdownMember(ctx, from, o.BreakdownOptions)
	}
	if err == nil && earlier != nil {
		err = b.CompareWith(*earlier)
	}
	if err != nil {
		return err
	}
	return app.Print(b, keysUsageTable(b, o.top))
}

// earlier reads the report that --since names, nil for none.
func (o *keysUsageOptions) earlier() (*keyspace.Breakdown, error) {
	if o.since == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(o.since)
	if err != nil {
		return nil, fault.OfFile("read", o.since, "unreadable_file", err)
	}
	b, err := keyspace.ReadBreakdown(o.since, raw)
	return &b, err
}
