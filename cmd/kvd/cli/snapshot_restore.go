package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/snapshot"
)

// snapshotRestoreOptions are the flags of kvd snapshot restore.
type snapshotRestoreOptions struct {
	restoreClusterFlags
	file      string
	name      string
	all       bool
	dataDir   string
	walDir    string
	writePlan string
	spoolDir  string
	plan      planFlags
}

func (o *snapshotRestoreOptions) addFlags(fs *pflag.FlagSet) {
	o.restoreClusterFlags.addFlags(fs)
	o.plan.addFlags(fs)
	fs.StringVar(&o.name, "name", "", "the member to restore here (default: the only one)")
	fs.BoolVar(&o.all, "all", false, "restore every member here, each into its own folder in --data-dir (and --wal-dir)")
	fs.StringVar(&o.dataDir, "data-dir", "", "`folder` to make: absent or empty (default NAME.etcd); with --all the one that they go into, made where it is absent")
	fs.StringVar(&o.walDir, "wal-dir", "", "`folder` to make for the log (default: in the data dir); with --all as --data-dir")
	addSpoolDir(fs, &o.spoolDir, "the system's folder for temporary files")
	fs.StringVar(&o.writePlan, "write-plan", "", "verify the file, write to this `path` what is the same on every host, and restore nothing")
}

func newSnapshotRestoreCmd(app *App, run func(context.Context, *App, snapshotRestoreOptions) error) *cobra.Command {
	var o snapshotRestoreOptions
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make members' data of a snapshot: a new cluster with what was in it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			o.given = cmd.Flags().Changed
			// What these have by default is another restore than the one that was wanted.
			if err := notEmpty(cmd.Flags(), "name", "data-dir", "wal-dir", "write-plan", "plan", "member", "initial-cluster",
				"initial-advertise-peer-urls", "initial-cluster-token", "bump-revision"); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Verifies the file as "kvd snapshot verify" does, before anything is created; has
etcd's own code make the data directory aside, beside its place; compares what was
made with the file, record for record; and renames it. A restore that is refused
or killed leaves nothing under the final name, and the same command works again. A
folder with something in it is never touched.

The restored members are a NEW cluster. Stop every member of the old one first. To
replace one member of a living cluster, don't restore: "kvd member replace".

Every member must come from the same file with the same flags. Either write a plan
once (--write-plan) and use it on every host (--plan), where another file or an
edited plan is refused; or give the same --member flags on every host: the cluster's
token is made from the file's content then, so that members of different files
become different clusters and do not talk to each other. A token of your own
(--initial-cluster-token) goes without that protection, and one that makes an ID of
the old cluster again is refused. etcdutl's flags are taken too.

Kubernetes, and everything that watches, must not see the revision go back: it
would wait without an error for changes that never come. --bump-revision auto lifts
the revision by 1,000,000,000 (more than a week of 1,500 writes a second) and marks
all before as compacted, so that every watch ends and its client lists anew. How far
clients may be ahead is told from the snapshot's age, which only the manifest beside
it knows: keep the two together.

A file without a hash (a copy of member/snap/db), or with one that does not match
and whole pages, needs --skip-hash-check. Leases come back with their full TTL.
Alarms come back too, and a NOSPACE alarm refuses writes: --clear-alarms leaves
them out.`,
		Cost: `Reads the file once for its hash and its keys twice, writes it once for each member, and reads that again; with
  bounded memory. Nothing is sent to a cluster. Free space for a copy of the file and 80 MiB are needed for each member.`,
		Example: `
  kvd snapshot restore backup.db --data-dir /var/lib/etcd                    # a cluster of one
  kvd snapshot restore backup.db --write-plan restore.yaml --bump-revision auto \
      --member m1=https://10.0.0.1:2380 --member m2=https://10.0.0.2:2380 --member m3=https://10.0.0.3:2380
  kvd snapshot restore backup.db --plan restore.yaml --name m2 --data-dir /var/lib/etcd    # on each host
  kvd snapshot restore backup.db --plan restore.yaml --all --data-dir /tmp/trial           # all on one
  kvd snapshot restore backup.db --plan restore.yaml --name m2 --dry-run`,
		Exits: []int{4, 5, 6, 7, 8},
	}.apply(cmd)
}

func runSnapshotRestore(ctx context.Context, app *App, o snapshotRestoreOptions) (err error) {
	recipe, err := o.recipe(o.name)
	if err != nil {
		return err
	}
	here, err := o.here(recipe)
	if err != nil {
		return err
	}
	r, err := snapshot.PlanRestore(ctx, snapshot.RestoreOptions{File: o.file, Recipe: recipe, Here: here, SpoolDir: o.spoolDir}, app.Progress())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if o.writePlan == "" {
		return app.runPlan(ctx, r.Plan, "", o.plan)
	}
	if err := r.Recipe.Write(o.writePlan); err != nil {
		return err
	}
	return app.Print(r.Recipe, recipeTable(r, o.writePlan))
}

// recipeTable shows what was written, and how it is used.
func recipeTable(r *snapshot.Restore, path string) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, n := range r.Plan.Notes {
			fmt.Fprintf(w, "note: %s\n", render.Safe(n))
		}
		columns := render.Columns[snapshot.RecipeMember]{
			{Header: "member", Value: func(m snapshot.RecipeMember) string { return m.Name }},
			{Header: "peer urls", Value: func(m snapshot.RecipeMember) string { return fmt.Sprint(m.PeerURLs) }},
		}
		if err := columns.Write(w, r.Recipe.Members); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "written to %s: use it on every host with\n  kvd snapshot restore FILE --plan %s --name NAME --data-dir DIR\n",
			render.Safe(path), render.Safe(path))
		return err
	}
}
