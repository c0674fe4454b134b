package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/snapshot"
)

// keysDeleteOptions are the flags of kvd keys delete.
type keysDeleteOptions struct {
	ops.DeleteOptions
	client   clientFlags
	plan     planFlags
	snapshot string
	none     bool // no snapshot
	state    string
	kube     string
}

func (o *keysDeleteOptions) addFlags(fs *pflag.FlagSet) {
	o.Layout = keys.Default()
	o.client.addFlags(fs)
	o.plan.addFlags(fs)
	fs.StringVar(&o.Select.Prefix, "prefix", "", "keys that begin so")
	fs.StringSliceVar(&o.Select.Resources, "resource", nil, "objects of this Kubernetes resource, by its plural and a custom one's group: events, policyreports.wgpolicyk8s.io")
	fs.StringSliceVarP(&o.Select.Namespaces, "namespace", "n", nil, "objects in this namespace; the Namespace itself stays")
	fs.DurationVar(&o.Select.OlderThan, "older-than", 0, "only objects that kubectl shows an AGE of at least this for; other keys with --state-dir")
	fs.StringVar(&o.state, "state-dir", "", "`directory` with the samples of kvd compact --schedule, by which --older-than knows when keys that are no objects were last written")
	fs.StringSliceVar(&o.MeanIt, "i-mean-it", nil, "what is protected and is to go all the same, by the `name` that the refusal gives it")
	fs.StringVar(&o.snapshot, "snapshot", "", "`file` for the snapshot that is saved first (default kvd-before-delete-TIME.db)")
	fs.BoolVar(&o.none, "no-snapshot", false, "save no snapshot first")
	fs.StringVar(&o.kube, "kube-prefix", "", "kube-apiserver's --etcd-prefix, if it is none of /registry, /kubernetes.io, /openshift.io")
}

func newKeysDeleteCmd(app *App, run func(context.Context, *App, keysDeleteOptions) error) *cobra.Command {
	var o keysDeleteOptions
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Delete keys, paced and resumable, also under NOSPACE",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(time.Now()); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return keysDeleteHelp().apply(cmd)
}

func (o *keysDeleteOptions) check(now time.Time) error {
	wrong := func(msg string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "keys delete", Msg: msg}
	}
	switch {
	case o.none && o.snapshot != "":
		return wrong("--snapshot and --no-snapshot contradict each other")
	case o.Select.OlderThan < 0:
		return wrong("--older-than can't be negative")
	case o.state != "" && o.Select.OlderThan == 0:
		return wrong("--state-dir tells ages, and no --older-than asks for one")
	}
	if o.kube != "" {
		o.Layout = o.Layout.With(o.kube)
	}
	if o.snapshot == "" {
		o.snapshot = now.UTC().Format("kvd-before-delete-20060102T150405Z.db")
	}
	return nil
}

func runKeysDelete(ctx context.Context, app *App, o keysDeleteOptions) error {
	return app.onCluster(ctx, o.client, o.plan, func(client *cluster.Client, view cluster.View) (_ *plan.Plan, err error) {
		if o.state != "" {
			if o.Known, err = ops.KnownRevisions(ctx, client, o.Select.OlderThan, o.state); err != nil {
				return nil, err
			}
		}
		if !o.none {
			o.Snapshot = o.saveFirst(client, app)
		}
		return ops.PlanDelete(ctx, client, view, o.DeleteOptions, app.Progress())
	})
}

// saveFirst returns what saves the snapshot. The one of a run that was interrupted
// is as good, if nothing that is to be deleted was written since.
func (o *keysDeleteOptions) saveFirst(client *cluster.Client, app *App) func(context.Context, cluster.View, int64) (string, error) {
	return func(ctx context.Context, view cluster.View, newest int64) (string, error) {
		s := snapshot.DefaultSaveOptions()
		s.Dest, s.Manifest, s.KvdVersion = o.snapshot, snapshot.ManifestPath(o.snapshot), version
		if m := savedBefore(s.Dest, view); m != nil && m.Revision >= newest {
			return "", plan.Skip(fmt.Sprintf("%s, of revision %d, has all that is to be deleted", s.Dest, m.Revision))
		}
		if err := s.CheckDest(); err != nil {
			return "", hinted(err, "file_exists", "give --snapshot another name: what is there is not a snapshot of this cluster that has all that is to be deleted")
		}
		s.Force = view.HasAlarm(cluster.AlarmNoSpace) // then nobody writes, so that reading a member does not make its file grow
		saved, err := snapshot.Save(ctx, client, view, s, app.Progress())
		err = hinted(err, "near_quota", "save one where it does no harm, `kvd snapshot save --force` here if nobody writes much; then give --no-snapshot")
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, of revision %d; `kvd snapshot restore` makes a cluster of it", saved.File, saved.Manifest.Revision), nil
	}
}

// hinted gives an error of a cause another hint: its own names flags that are not
// here.
func hinted(err error, cause, hint string) error {
	var e *fault.Error
	if fault.CauseOf(err) == cause && errors.As(err, &e) {
		return e.WithHint(hint)
	}
	return err
}

// savedBefore returns the manifest of a snapshot of this cluster that is there.
func savedBefore(file string, view cluster.View) *snapshot.Manifest {
	m, err := snapshot.ReadManifest(snapshot.ManifestPath(file))
	if err != nil || m.ClusterID != snapshot.ID(view.ID) {
		return nil
	}
	if info, err := os.Stat(file); err != nil || info.Size() != m.SizeBytes {
		return nil
	}
	return m
}
