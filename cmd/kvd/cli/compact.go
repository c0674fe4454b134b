package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
)

// compactOptions are the flags of kvd compact.
type compactOptions struct {
	ops.CompactOptions
	client clientFlags
	plan   planFlags
	to     string
	keep   int64
}

func (o *compactOptions) addFlags(fs *pflag.FlagSet) {
	o.CompactOptions = ops.DefaultCompactOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	fs.StringVar(&o.to, "to", "", "compact up to this revision, or to the `head`")
	fs.Int64Var(&o.keep, "keep-revisions", 0, "leave this many revisions below the head")
	fs.Int64Var(&o.Step, "step", o.Step, "compact at most this many revisions at once (0: all at once)")
	fs.DurationVar(&o.Pause, "pause", o.Pause, "pause between two steps")
	fs.BoolVar(&o.Physical, "physical", o.Physical, "wait until every member has freed the space inside its file")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long to wait for one step")
}

func newCompactCmd(app *App, run func(context.Context, *App, compactOptions) error) *cobra.Command {
	var o compactOptions
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Discard history, with a margin for those who still read it",
		Args:  compactArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.goal(cmd.Flags()); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Compacts the history of the key space. Without --to or --keep-revisions it
proposes a revision: on a Kubernetes cluster the one in compact_rev_key, which
kube-apiserver would compact to next; elsewhere the head less 5 minutes of writes
as measured now, and at least 1000 revisions; under NOSPACE the head less 1000.

The space becomes free inside the file: the file itself shrinks only with
kvd defrag. A revision in which a key is deleted and put again in one
transaction is never compacted to, since etcd would lose the fresh value.`,
		Cost: "Choosing: some 30 reads of one absent key, one walk over the keys (without values), and up to 5 s of measuring. " +
			"Compacting: every member deletes old versions in batches of 1000.",
		Example: `
  kvd compact --dry-run               # what it would do
  kvd compact --keep-revisions 10000 --yes
  kvd compact --to head --yes         # nothing but the newest values stays readable
  kvd compact --step 50000 --pause 2s # a long history, gently`,
		Exits: []int{4, 5, 6, 8},
	}.apply(cmd)
}

// compactArgs takes no arguments, and knows what etcdctl's argument means.
func compactArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	e := &fault.Error{Kind: fault.Usage, Cause: "arguments", Op: "compact", Msg: fmt.Sprintf("unexpected argument %q", args[0])}
	if n, err := strconv.ParseInt(args[0], 10, 64); err == nil {
		e.Msg = fmt.Sprintf("a bare number would mean: everything up to revision %d", n)
		e.Hint = fmt.Sprintf("did you mean `--keep-revisions %d` (leave the newest %d revisions)? For up to revision %d give `--to %d`", n, n, n, n)
	}
	return e
}

// goal turns --to and --keep-revisions into one goal.
func (o *compactOptions) goal(fs *pflag.FlagSet) error {
	usage := func(msg string) error { return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "compact", Msg: msg} }
	if fs.Changed("to") && fs.Changed("keep-revisions") {
		return usage("--to and --keep-revisions contradict each other: give one")
	}
	if fs.Changed("keep-revisions") {
		if o.keep < 1 {
			return usage(fmt.Sprintf("--keep-revisions %d: want at least 1 (`--to head` keeps none)", o.keep))
		}
		o.Goal.Keep = o.keep
	}
	if !fs.Changed("to") {
		return nil
	}
	if o.to == "head" {
		o.Goal.Head = true
		return nil
	}
	rev, err := strconv.ParseInt(o.to, 10, 64)
	if err != nil || rev < 1 {
		return usage(fmt.Sprintf("--to %q: want a revision (1 or more), or head", o.to))
	}
	o.Goal.To = rev
	return nil
}

func runCompact(ctx context.Context, app *App, o compactOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (*plan.Plan, error) {
		return ops.PlanCompact(ctx, client, view, o.CompactOptions, app.Progress())
	})
}
