package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/plan"
)

const keysDeleteOp = "keys delete"

// keysDeleteOptions are the flags of kvd keys delete.
type keysDeleteOptions struct {
	ops.DeleteOptions
	client   clientFlags
	plan     planFlags
	snapshot string
	none     bool   // no snapshot
	prefix   string // as it is typed
	state    string
	kube     kubePrefix
}

func (o *keysDeleteOptions) addFlags(fs *pflag.FlagSet) {
	o.Layout = keys.Default()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	fs.StringVar(&o.prefix, "prefix", "", `keys that begin so, written as kvd prints them: \x00 is a byte`)
	fs.StringSliceVar(&o.Select.Resources, "resource", nil, "objects of this Kubernetes resource, by its plural and a custom one's group: events, policyreports.wgpolicyk8s.io")
	fs.StringSliceVarP(&o.Select.Namespaces, "namespace", "n", nil, "objects in this namespace; the Namespace itself stays")
	fs.DurationVar(&o.Select.OlderThan, "older-than", 0, "only objects that kubectl shows an AGE of at least this for; other keys with --state-dir")
	fs.StringVar(&o.state, "state-dir", "", "`directory` with the samples of kvd compact --schedule, by which --older-than knows when keys that are no objects were last written")
	fs.StringSliceVar(&o.MeanIt, "i-mean-it", nil, "what is protected and is to go all the same, by the `name` that the refusal gives it")
	fs.StringVar(&o.snapshot, "snapshot", "", "`file` for the snapshot that is saved first (default kvd-before-delete-TIME.db)")
	fs.BoolVar(&o.none, "no-snapshot", false, "save no snapshot first")
	o.kube.addFlags(fs)
}

func newKeysDeleteCmd(app *App, run func(context.Context, *App, keysDeleteOptions) error) *cobra.Command {
	var o keysDeleteOptions
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Delete keys, paced and resumable, also under NOSPACE",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Each of these narrows what goes: without its value it is more than was meant.
			if err := errors.Join(notEmpty(cmd.Flags(), "prefix", "resource", "namespace", "kube-prefix"), o.check(time.Now())); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return keysDeleteHelp().apply(cmd)
}

func (o *keysDeleteOptions) check(now time.Time) (err error) {
	wrong := func(msg string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: keysDeleteOp, Msg: msg}
	}
	switch {
	case o.none && o.snapshot != "":
		return wrong("--snapshot and --no-snapshot contradict each other")
	case o.Select.OlderThan < 0:
		return wrong("--older-than can't be negative")
	case o.state != "" && o.Select.OlderThan == 0:
		return wrong("--state-dir tells ages, and no --older-than asks for one")
	}
	if o.Select.Prefix, err = unescape(keysDeleteOp, "--prefix", o.prefix); err != nil {
		return err
	}
	o.Layout = o.kube.in(o.Layout)
	if o.snapshot == "" {
		o.snapshot = now.UTC().Format("kvd-before-delete-20060102T150405Z.db")
	}
	return nil
}

func runKeysDelete(ctx context.Context, app *App, o keysDeleteOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (_ *plan.Plan, err error) {
		if o.state != "" {
			if o.Known, err = ops.KnownRevisions(ctx, client, o.Select.OlderThan, o.state); err != nil {
				return nil, withoutSamples(err, o.Select.OlderThan)
			}
		}
		if !o.none {
			first := &firstSnapshot{client: client, app: app, file: o.snapshot}
			o.Saved, o.Snapshot = first.find, first.save
		}
		return ops.PlanDelete(ctx, client, view, o.DeleteOptions, app.Progress())
	})
}

// withoutSamples gives the error of an age that can't be told the flags of this command.
func withoutSamples(err error, age time.Duration) error {
	var e *fault.Error
	if fault.CauseOf(err) == "no_samples" && errors.As(err, &e) {
		return e.On(keysDeleteOp, "--older-than").WithHint(fmt.Sprintf("leave `kvd compact --schedule … --keep-duration %s --state-dir DIR` running, which takes them, "+
			"and give the same --state-dir here; or leave it out: then objects go by their own age, and other keys stay", age))
	}
	return err
}
