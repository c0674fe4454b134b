package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillRestoreOptions are the flags of kvd drill restore.
type drillRestoreOptions struct {
	drill.RestoreOptions
}

func (o *drillRestoreOptions) addFlags(fs *pflag.FlagSet) {
	o.RestoreOptions = drill.DefaultRestoreOptions()
	fs.IntVar(&o.Members, "members", o.Members, "members of the cluster, 1 to 5")
	fs.IntVar(&o.Writes, "writes", o.Writes, "how many writes are acknowledged after the snapshot, at least")
	addStageFlags(fs, &o.Keep, &o.Dir)
}

func newDrillRestoreCmd(app *App, run func(context.Context, *App, drillRestoreOptions) error) *cobra.Command {
	var o drillRestoreOptions
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Lose a whole cluster, restore its snapshot, and see what watchers hear",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), app, o) },
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts a cluster of real kvd serve processes on loopback, fills it with what
Kubernetes writes, takes a snapshot as kvd snapshot save does, and writes on, while
a client that has listed everything watches. Then every member is killed and its
data removed. Says what is left: whether the file restores, which acknowledged
writes are not in it, and by how many revisions clients are ahead of it.

Restores every member twice, as kvd snapshot restore does. First with the revision
as it was: the client watches on from where it was, new writes come, and it hears
none of them, without an error. Then with --bump-revision auto, which lifts the
revision and marks all before as compacted: the same watch is ended as compacted,
and the client lists anew and hears everything.

Proves it: every member has every key of the snapshot with its value, version,
revisions and lease, every lease with its TTL, the same hash of all of it, and new
writes have revisions above everything that any client has seen. It touches no other
cluster, and leaves no process and no file behind, also when it is interrupted or
fails.

What is told comes from the report that -o json prints, number by number.`,
		Cost: "Two processors for some fifteen seconds, some 150 MB of disk and 100 MB of memory per member. " +
			"Nothing outside the machine, and no cluster but its own.",
		Example: `
  kvd drill restore
  kvd drill restore --members 1 --writes 5000
  kvd drill restore -o json | jq '{plain: .plain.watch, bumped: .bumped.watch}'
  kvd drill restore --keep        # and then: kvd status, kvd keys`,
		Exits: []int{3, 4},
	}.apply(cmd)
}

func runDrillRestore(ctx context.Context, app *App, o drillRestoreOptions) error {
	return playDrill(ctx, app, tellRestore, func(ctx context.Context, told func(drill.RestoreReport, drill.Phase)) (drill.RestoreReport, error) {
		o.Told = told
		return drill.Restore(ctx, o.RestoreOptions, app.Progress())
	})
}
