package cli

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
)

func defaultGlobalFlags() globalFlags {
	return globalFlags{Output: render.Table, Progress: progressAuto}
}

func (g *globalFlags) addFlags(fs *pflag.FlagSet) {
	fs.VarP(&g.Output, "output", "o", "format of the result: table, json or yaml")
	fs.StringVar(&g.Progress, "progress", g.Progress, "progress on stderr: auto, plain, json or none")
	fs.StringVar(&g.ConfigFile, "config", "", "config file (default $XDG_CONFIG_HOME/kvd/config.yaml)")
}

// entry is a command below the root.
type entry struct {
	group, name string
	build       func(*App) *cobra.Command
}

// contents is the table of contents of kvd.
func contents() []entry {
	return []entry{
		{"run", "serve", newServeCmd},
		{"run", "drill", newDrillCmd},
		{"observe", "status", func(a *App) *cobra.Command { return newStatusCmd(a, runStatus) }},
		{"observe", "quota", func(a *App) *cobra.Command { return newQuotaCmd(a, runQuota) }},
		{"observe", "lease", newLeaseCmd},
		{"observe", "keys", newKeysCmd},
		{"observe", "diff", func(a *App) *cobra.Command { return newDiffCmd(a, runDiff) }},
		{"observe", "wal", newWALCmd},
		{"observe", "explain", newExplainCmd},
		{"observe", "diagnose", func(a *App) *cobra.Command { return newDiagnoseCmd(a, runDiagnose) }},
		{"maintain", "alarm", newAlarmCmd},
		{"maintain", "compact", func(a *App) *cobra.Command { return newCompactCmd(a, runCompact) }},
		{"maintain", "defrag", func(a *App) *cobra.Command { return newDefragCmd(a, runDefrag) }},
		{"maintain", "snapshot", newSnapshotCmd},
		{"maintain", "member", newMemberCmd},
		{"load", "loadgen", newLoadgenCmd},
		{"other", "config", newConfigCmd},
		{"other", "version", newVersionCmd},
	}
}

// wanted is what of the contents a command line needs: that which it names, or all,
// to tell of them or to complete a word. A diagnosis names other commands.
func wanted(args []string) []entry {
	all := contents()
	if len(args) == 0 || args[0] == "diagnose" {
		return all
	}
	for i, e := range all {
		if e.name == args[0] {
			return all[i : i+1]
		}
	}
	return all
}

// newRootCmd builds the command tree with these below its root.
func newRootCmd(app *App, below []entry) *cobra.Command {
	root := &cobra.Command{
		Use:           "kvd",
		Short:         "The one binary for people who are on call for etcd",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	help{
		Long: `
kvd serve runs an etcd server; every other command inspects, repairs, backs up
or loads one, live or from its files. Reproduce, diagnose, remedy, prove.`,
		Cost: "Each command's help says what it costs the cluster.",
		Example: `
  kvd status                      # members, leader, sizes against quota, alarms
  kvd alarm recover --dry-run     # what it would take to get out of NOSPACE
  kvd drill nospace               # see the whole rescue on a throwaway cluster`,
		Exits: []int{3, 4, 5, 6, 7, 8, 9},
	}.apply(root)
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate("{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}\n\n{{end}}{{.UsageString}}")
	root.SetOut(helpWriter{app.IO.Out})
	root.SetErr(app.IO.Err)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.HiddenDefaultCmd = true
	app.Global.addFlags(root.PersistentFlags())
	var version bool
	root.Flags().BoolVar(&version, "version", false, "print what kvd version prints")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Name() != "serve" && cmd.Name() != "version" && !version { // none has to do with kvd's config file
			if err := app.applyDefaults(cmd); err != nil {
				return err
			}
		}
		return checkProgressMode(app.Global.Progress)
	}

	root.AddGroup(
		&cobra.Group{ID: "run", Title: "RUN"},
		&cobra.Group{ID: "observe", Title: "OBSERVE"},
		&cobra.Group{ID: "maintain", Title: "MAINTAIN"},
		&cobra.Group{ID: "load", Title: "LOAD"},
		&cobra.Group{ID: "other", Title: "OTHER"},
	)
	for _, e := range below {
		cmd := e.build(app)
		cmd.GroupID = e.group
		root.AddCommand(cmd)
	}
	root.SetHelpCommandGroupID("other")
	root.InitDefaultCompletionCmd() // now rather than when it runs, so that strict reaches it
	strict(root)
	withoutFlag := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if version && len(args) == 0 {
			return runVersion(cmd.Context(), app)
		}
		return withoutFlag(cmd, args)
	}
	return root
}

// helpWriter takes help to a reader who may leave half-way, of which cobra would
// complain.
type helpWriter struct{ io.Writer }

func (w helpWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if isBrokenPipe(err) {
		return len(b), nil
	}
	return n, err
}

// newGroupCmd makes a command that only holds others.
func newGroupCmd(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(subs...)
	return cmd
}
