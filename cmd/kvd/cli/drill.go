package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/cmd/kvd/drill"
)

// newDrillCmd groups the drills.
func newDrillCmd(app *App) *cobra.Command {
	return newGroupCmd("drill", "Reproduce, diagnose, remedy and prove on a throwaway cluster", bounded(
		newDrillNospaceCmd(app, runDrillNospace), newDrillCrashCmd(app, runDrillCrash),
		newDrillStaleReadCmd(app, runDrillStaleRead), newDrillRestoreCmd(app, runDrillRestore),
		newDrillWatcherCmd(app, runDrillPain), newDrillEventsCmd(app, runDrillPain),
		newDrillRelistCmd(app, runDrillPain), newDrillLeaderCmd(app, runDrillPain),
		newDrillHeartbeatsCmd(app, runDrillPain), newDrillBigListCmd(app, runDrillPain), newDrillEndpointsCmd(app, runDrillPain),
		newDrillBigObjectsCmd(app, runDrillPain))...)
}

// bounded has commands refuse what no load can be made of, see checkBounds.
func bounded(cmds ...*cobra.Command) []*cobra.Command {
	for _, cmd := range cmds {
		cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return checkBounds(cmd.Flags()) }
	}
	return cmds
}

// drillOptions are the flags of kvd drill nospace.
type drillOptions struct {
	drill.Options
	quota byteSize
}

func (o *drillOptions) addFlags(fs *pflag.FlagSet) {
	o.Options = drill.DefaultOptions()
	o.quota = byteSize(o.QuotaBytes)
	fs.StringVar(&o.Remedy, "remedy", o.Remedy, "what to do about it: recover or raise-quota")
	fs.IntVar(&o.Members, "members", o.Members, "members of the cluster, 1 to 5")
	fs.Var(&o.quota, "quota", "--quota-backend-bytes of each member; that much is written")
	addStageFlags(fs, &o.Keep, &o.Dir)
}

func newDrillNospaceCmd(app *App, run func(context.Context, *App, drillOptions) error) *cobra.Command {
	var o drillOptions
	cmd := &cobra.Command{
		Use:   "nospace",
		Short: "Fill a cluster until it is read-only, rescue it, and prove it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.QuotaBytes = int64(o.quota)
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts a cluster of real kvd serve processes on loopback and fills it with what
Kubernetes writes (node status, Leases, pods, Events) until etcd refuses the
next write. Shows what is refused, and what fills the files. Then applies the
remedy and proves it: with writes through every member, read back from all of
them, and no alarm left. It touches no other cluster, and leaves no process and
no file behind, also when it is interrupted or fails.

  --remedy recover      what kvd alarm recover does: compact, defragment, check,
                        disarm
  --remedy raise-quota  restart the members one by one with four times the
                        quota, see that they are still read-only, then disarm

What is told comes from the report that -o json prints, number by number.`,
		Cost: "Two processors for half a minute, some 150 MB of disk and 100 MB of memory per member; with a larger --quota more, in proportion. " +
			"Nothing outside the machine, and no cluster but its own.",
		Example: `
  kvd drill nospace
  kvd drill nospace --remedy raise-quota --members 1 --quota 8MiB
  kvd drill nospace -o json | jq '.sizes[] | {phase, size: [.members[].db_size_bytes]}'
  kvd drill nospace --keep        # and then: kvd status, kvd quota`,
		Exits: []int{3, 4, 9}, // 9: kvd diagnose could not look
	}.apply(cmd)
}

func runDrillNospace(ctx context.Context, app *App, o drillOptions) error {
	return playDrill(ctx, app, tellNospace, func(ctx context.Context, told func(drill.Report, drill.Phase)) (drill.Report, error) {
		o.Told = told
		return drill.Nospace(ctx, o.Options, app.Progress())
	})
}

// playDrill plays a drill and tells each phase as it ends, or prints the report.
func playDrill[R any](ctx context.Context, app *App, tell func(io.Writer, R, drill.Phase) error,
	play func(context.Context, func(R, drill.Phase)) (R, error),
) error {
	table := app.Global.Output == render.Table
	var told error
	began := false
	r, err := play(ctx, func(r R, p drill.Phase) {
		began = true
		if table && told == nil {
			told = tell(app.IO.Out, r, p)
		}
	})
	if !table && began {
		told = app.Print(r, func(io.Writer) error { return nil })
	}
	if err == nil && isBrokenPipe(told) {
		return nil // it was proved; that nobody reads on is not an error
	}
	return errors.Join(err, told)
}
