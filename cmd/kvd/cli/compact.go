package cli

import (
	"context"
	"errors"
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
	timer  scheduleFlags
	to     string
	keep   int64
	state  string
}

func (o *compactOptions) addFlags(fs *pflag.FlagSet) {
	o.CompactOptions = ops.DefaultCompactOptions()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	o.timer.addFlags(fs)
	fs.StringVar(&o.to, "to", "", "compact up to this revision, or to the `head`")
	fs.Int64Var(&o.keep, "keep-revisions", 0, "leave this many revisions below the head")
	fs.DurationVar(&o.Goal.For, "keep-duration", 0, "leave what is younger than this; with --schedule, which samples what etcd does not tell")
	fs.StringVar(&o.state, "state-dir", "", "`directory` in which the samples of --keep-duration outlive a restart")
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
			if err := errors.Join(o.goal(cmd.Flags()), o.timer.check(cmd.Flags())); err != nil {
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
transaction is never compacted to, since etcd would lose the fresh value.

With --schedule it stays and compacts again and again (see kvd defrag --help for
what that means). etcd keeps no time with its revisions: for --keep-duration the
schedule samples which revision it was when, and compacts nothing until its
samples reach back far enough. With --state-dir it has them after a restart too;
a file there that is damaged is moved aside (.bad), and a full disk ends nothing.`,
		Cost: "Choosing: some 30 reads of one absent key, one walk over the keys (without values), and up to 5 s of measuring. " +
			"Compacting: every member deletes old versions in batches of 1000.",
		Example: `
  kvd compact --dry-run               # what it would do
  kvd compact --keep-revisions 10000 --yes
  kvd compact --to head --yes         # nothing but the newest values stays readable
  kvd compact --step 50000 --pause 2s # a long history, gently
  kvd compact --schedule '@every 5m' --keep-duration 10m --state-dir /var/lib/kvd
  kvd compact --schedule '@every 5m' --keep-revisions 10000 --metrics-listen :9389`,
		Exits: []int{4, 5, 6, 7, 8},
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

func runCompact(ctx context.Context, app *App, o compactOptions) error {
	if o.timer.on() {
		return runCompactScheduled(ctx, app, o)
	}
	if o.Goal.For > 0 && o.state == "" { // said before anything is sent
		_, err := ops.KnownRevisions(ctx, nil, o.Goal.For, "")
		return err
	}
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (_ *plan.Plan, err error) {
		if o.Goal.For > 0 {
			if o.Known, err = ops.KnownRevisions(ctx, client, o.Goal.For, o.state); err != nil {
				return nil, err
			}
		}
		return ops.PlanCompact(ctx, client, view, o.CompactOptions, app.Progress())
	})
}
