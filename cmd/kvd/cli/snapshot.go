package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops/snapshot"
)

// newSnapshotCmd groups what concerns snapshots.
func newSnapshotCmd(app *App) *cobra.Command {
	return newGroupCmd("snapshot", "Save snapshots, look into them and backend files, and prove that they restore",
		newSnapshotSaveCmd(app, runSnapshotSave), newSnapshotStatusCmd(app, runSnapshotStatus), newSnapshotVerifyCmd(app, runSnapshotVerify),
		newSnapshotRestoreCmd(app, runSnapshotRestore))
}

// snapshotStatusOptions are the flags of kvd snapshot status.
type snapshotStatusOptions struct {
	snapshot.Options
	file string
}

func (o *snapshotStatusOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Live, "live", false, "read the file although a running server holds it: it may be torn")
	addSpoolDir(fs, &o.SpoolDir, "the system's folder for temporary files")
}

// addSpoolDir adds the flag for where content goes that cannot be read in place.
func addSpoolDir(fs *pflag.FlagSet, dir *string, otherwise string) {
	fs.StringVar(dir, "spool-dir", "", "where to put the content of a compressed snapshot, as large as that, without a name (default: "+otherwise+")")
}

func newSnapshotStatusCmd(app *App, run func(context.Context, *App, snapshotStatusOptions) error) *cobra.Command {
	var o snapshotStatusOptions
	cmd := &cobra.Command{
		Use:   "status FILE",
		Short: "What is in a snapshot or backend file",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Says what is in the box before somebody needs it: revision and compacted
revision, live keys and history, leases, alarms, whether authentication is on,
the members it is from, the storage version, and two digests: the SHA-256 of the
file, and the digest of its keys and values that "etcdctl endpoint hashkv" shows
for a member with this content.

It takes a snapshot or a member's own file (member/snap/db of a stopped server).
Nothing is ever written to it: not its bytes, not its times. Names of users and
password hashes are not shown. Of a damaged file it shows what can be read, says
so, and exits 7.`,
		Cost: `Reads the file once for its hash and its keys twice, with bounded memory, and leaves no more of it in the
  page cache than there was. Nothing is sent to a cluster. While it reads, a server that starts on that very file waits.`,
		Example: `
  kvd snapshot status backup.db
  kvd snapshot status /var/lib/etcd/member/snap/db          # of a stopped member
  kvd snapshot status /var/lib/etcd/member/snap/db --live   # of a running one: may be torn
  kvd snapshot status backup.db -o json | jq .digests`,
		Exits: []int{4, 5, 7, 8, 9},
	}.apply(cmd)
}

func runSnapshotStatus(ctx context.Context, app *App, o snapshotStatusOptions) error {
	status, err := snapshot.Inspect(ctx, o.file, o.Options, app.Progress())
	if status == nil {
		return err
	}
	return errors.Join(app.Print(status, snapshotTable(status)), err)
}
