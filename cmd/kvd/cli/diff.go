package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/fault"
)

// diffOptions are the flags of kvd diff.
type diffOptions struct {
	diff.Options
	from     sourceFlags
	a, b     sideSpec
	prefix   string
	ignore   []string
	by       string
	stat     bool
	nameOnly bool
	hash     bool
	trust    bool
}

func (o *diffOptions) addFlags(fs *pflag.FlagSet) {
	o.from.addFlags(fs)
	fs.StringVar(&o.prefix, "prefix", "", `only keys that begin so, written as kvd prints them: \x00 is a byte`)
	fs.StringSliceVar(&o.Select.Resources, "resource", nil, "only objects of this Kubernetes resource: pods, policyreports.wgpolicyk8s.io")
	fs.StringSliceVarP(&o.Select.Namespaces, "namespace", "n", nil, "only objects in this namespace")
	fs.StringSliceVar(&o.ignore, "ignore", nil, "fields of objects that are left out, with what is in them: managedFields, status, metadata.annotations")
	fs.BoolVar(&o.History, "history", false, "also keys that were made and deleted in between")
	fs.BoolVar(&o.stat, "stat", false, "only how many keys differ, in a table")
	fs.StringVar(&o.by, "by", "", "count by resource or namespace; implies --stat")
	fs.BoolVar(&o.nameOnly, "name-only", false, "only the names of the keys, one to a line")
	fs.BoolVar(&o.ShowValues, "show-values", false, "show what Secrets hold, and the values of keys that are no objects")
	fs.BoolVar(&o.trust, "trust-revisions", false, "take a key with the same revisions on both sides for unchanged, without reading its value; so between two sides of one cluster that was never restored, and not between two members")
	fs.BoolVar(&o.hash, "hash", false, "of two members: compare their HashKV first, and read keys only if those differ. Each member in turn stands still meanwhile")
}

func newDiffCmd(app *App, run func(context.Context, *App, diffOptions) error) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "What differs between two revisions, snapshots, data directories or members",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(app, args); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return diffHelp().apply(cmd)
}

func runDiff(ctx context.Context, app *App, o diffOptions) error {
	a, b, err := o.openSides(ctx, app)
	if err != nil {
		return err
	}
	defer a.Close() //nolint:errcheck // only read
	defer b.Close() //nolint:errcheck // only read
	o.ByRevision = o.trust || sameSource(a, b)
	heads, err := o.pin(ctx, &a, &b)
	if err != nil {
		return err
	}
	if o.hash && a.Rev != b.Rev { // equal hashes at the one would say nothing of the other
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "diff", Msg: fmt.Sprintf("--hash is of one revision, and A is at %d, B at %d", a.Rev, b.Rev),
			Hint: "leave --hash out, or give both members the same revision, or none"}
	}
	out := bufio.NewWriterSize(app.IO.Out, 64<<10)
	r := newDiffReport(a, b, heads, o)
	if o.hash {
		same, err := r.compareHashes(ctx, app, a)
		if err != nil {
			return err // nothing was compared, so that nothing is said of it
		}
		if same {
			return errors.Join(app.printDiff(out, r, o), out.Flush(), r.judge())
		}
	}
	o.announce(ctx, app, a, b, r)
	print := o.printer(app, out)
	if o.members() && a.Rev == b.Rev {
		if r.jury, err = ops.NewJury(a.client, a.view, a.source.member, b.source.member, a.Rev); err != nil {
			return err
		}
	}
	sum, err := diff.Run(ctx, a.Side, b.Side, o.Options, func(e *diff.Entry) error {
		if r.jury != nil {
			if err := r.jury.Ask(ctx, e); err != nil {
				return err
			}
		}
		return errors.Join(print(e), app.showLine(out))
	})
	r.finish(sum)
	if err != nil {
		return errors.Join(o.partly(err, sum), out.Flush())
	}
	return errors.Join(app.printDiff(out, r, o), out.Flush(), r.judge())
}

// partly says that something was shown before it failed.
func (o *diffOptions) partly(err error, sum *diff.Summary) error {
	if sum.Total.Keys() == 0 || o.stat || isBrokenPipe(err) || fault.KindOf(err) == fault.Interrupted || fault.KindOf(err) == fault.Damage {
		return err
	}
	return &fault.Error{Kind: fault.Partial, Cause: fault.CauseOf(err), Op: "diff", Msg: "what is shown is not all", Err: err, Hint: fault.HintOf(err)}
}
