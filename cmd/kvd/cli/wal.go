package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"kvd/pkg/ops/wal"
)

// newWALCmd groups what looks into a write-ahead log.
func newWALCmd(app *App) *cobra.Command {
	return newGroupCmd("wal", "Look into a member's write-ahead log: what is in it, and what a server will do with it",
		newWALListCmd(app, runWALList), newWALDumpCmd(app, runWALDump), newWALStatsCmd(app, runWALStats), newWALVerifyCmd(app, runWALVerify))
}

func newWALListCmd(app *App, run func(context.Context, *App, string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list DIR",
		Short: "The segments of a write-ahead log, and what else is in its folder",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), app, args[0]) },
	}
	return help{
		Long: `
Lists the segments of a log with what is in them: entries by index and term,
entries that a later leader replaced, bytes used of those that were allocated
beforehand, the CRC that runs on from segment to segment, snapshot records. Then
the files that are no segments, and what they mean.

DIR is a data directory, its member folder or a WAL folder, of a stopped server or
of a running one. Nothing is locked and nothing is written. Damage ends no listing:
what follows is listed too, and the exit code is 7; "kvd wal verify" says what a
server does about it. A record that was cut short at the very end, which a start
repairs, is no damage here.`,
		Cost: `Reads all segments once, with bounded memory. Nothing is sent to a cluster.`,
		Example: `
  kvd wal list /var/lib/etcd
  kvd wal list /var/lib/etcd/member/wal -o json | jq '.segments[-1].last_entry'`,
		Exits: []int{4, 7, 8},
	}.apply(cmd)
}

func runWALList(ctx context.Context, app *App, dir string) error {
	l, err := wal.List(ctx, dir)
	if err != nil {
		return err
	}
	return errors.Join(app.Print(l, walListTable(l)), l.Err())
}
