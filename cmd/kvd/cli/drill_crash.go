package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillCrashOptions are the flags of kvd drill crash.
type drillCrashOptions struct {
	drill.CrashOptions
}

func (o *drillCrashOptions) addFlags(fs *pflag.FlagSet) {
	o.CrashOptions = drill.DefaultCrashOptions()
	fs.IntVar(&o.Members, "members", o.Members, "members of the cluster, 1 to 5")
	fs.StringVar(&o.Kill, "kill", o.Kill, "whom to kill: all (at the same moment), leader or follower")
	fs.Int64Var(&o.Writes, "writes", o.Writes, "how many writes are acknowledged before the kill, at least")
	addStageFlags(fs, &o.Keep, &o.Dir)
}

// addStageFlags adds the flags that every drill has.
func addStageFlags(fs *pflag.FlagSet, keep *bool, dir *string) {
	fs.BoolVar(keep, "keep", false, "leave the cluster running, and say how to reach it and how to end it")
	fs.StringVar(dir, "dir", "", "make the cluster's folder in this one (default: the system's temporary folder)")
}

func newDrillCrashCmd(app *App, run func(context.Context, *App, drillCrashOptions) error) *cobra.Command {
	var o drillCrashOptions
	cmd := &cobra.Command{
		Use:   "crash",
		Short: "Kill members under load, and find every acknowledged write",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), app, o) },
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts a cluster of real kvd serve processes on loopback, writes to it through
every member, and kills members with SIGKILL in the middle of that. Then, from
the files and before anything is started again: up to which entry the database
has come (its consistent index), where the log ends, what the log knew to be
committed. Then starts them, sees what each applies again, and looks for every
write on every member: each acknowledged one must be there exactly once, with
its revision and its value; one that was sent and never answered may be there or
not, but never by half. It touches no other cluster, and leaves no process and
no file behind, also when it is interrupted or fails.

What it cannot show: SIGKILL leaves what the kernel has been given. That this is
on the disk too, against a power cut, is what etcd's fsync of the log before
each acknowledgement is for; the drill counts them.

What is told comes from the report that -o json prints, number by number.`,
		Cost: "Two processors for some ten seconds, some 70 MB of disk and 100 MB of memory per member. " +
			"Nothing outside the machine, and no cluster but its own.",
		Example: `
  kvd drill crash
  kvd drill crash --members 1 --writes 5000
  kvd drill crash --kill leader
  kvd drill crash -o json | jq '.files[] | {member, consistent_index, last_entry_index, acknowledged_only_in_log}'`,
		Exits: []int{3, 4},
	}.apply(cmd)
}

func runDrillCrash(ctx context.Context, app *App, o drillCrashOptions) error {
	return playDrill(ctx, app, tellCrash, func(ctx context.Context, told func(drill.CrashReport, drill.Phase)) (drill.CrashReport, error) {
		o.Told = told
		return drill.Crash(ctx, o.CrashOptions, app.Progress())
	})
}
