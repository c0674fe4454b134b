package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/fault"
)

func defaultGlobalFlags() globalFlags {
	return globalFlags{Output: render.Table, Progress: progressAuto}
}

func (g *globalFlags) addFlags(fs *pflag.FlagSet) {
	fs.VarP(&g.Output, "output", "o", "format of the result: table, json or yaml")
	fs.StringVar(&g.Progress, "progress", g.Progress, "progress on stderr: auto, plain, json or none")
	fs.StringVar(&g.ConfigFile, "config", "", "config file (default $XDG_CONFIG_HOME/kvd/config.yaml)")
}

// newRootCmd builds the command tree. It is the table of contents of kvd.
func newRootCmd(app *App) *cobra.Command {
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
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Name() != "serve" && cmd.Name() != "version" { // neither has to do with kvd's config file
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
		&cobra.Group{ID: "other", Title: "OTHER"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("run", newServeCmd(app), newDrillCmd(app))
	add("observe", newStatusCmd(app, runStatus), newQuotaCmd(app, runQuota), newLeaseCmd(app), newExplainCmd(app))
	add("maintain", newAlarmCmd(app), newCompactCmd(app, runCompact), newDefragCmd(app, runDefrag), newSnapshotCmd(app), newMemberCmd(app))
	add("other", newConfigCmd(app), newVersionCmd(app))
	root.SetHelpCommandGroupID("other")
	root.InitDefaultCompletionCmd() // now rather than when it runs, so that strict reaches it
	strict(root)
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

// strict gives every command that only holds others an error for a word it does
// not know, where cobra would print help and exit 0, and makes every wrong
// number of arguments a usage error.
func strict(cmd *cobra.Command) {
	if !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.SuggestionsMinimumDistance = 2
		cmd.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			e := &fault.Error{Kind: fault.Usage, Cause: "unknown_command",
				Msg:  fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath()),
				Hint: fmt.Sprintf("see `%s --help`", c.CommandPath())}
			if s := c.SuggestionsFor(args[0]); len(s) > 0 {
				e.Hint = fmt.Sprintf("did you mean `%s %s`?", c.CommandPath(), s[0])
			}
			return e
		}
	} else if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil || fault.KindOf(err) == fault.Usage {
				return err
			}
			return &fault.Error{Kind: fault.Usage, Cause: "arguments", Op: commandName(c), Msg: err.Error(),
				Hint: fmt.Sprintf("see `%s --help`", c.CommandPath())}
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

// flagError makes a usage error of what pflag says, and knows what people type
// who come from etcdctl.
func flagError(cmd *cobra.Command, err error) error {
	e := &fault.Error{Kind: fault.Usage, Cause: "flag", Op: commandName(cmd), Msg: err.Error(),
		Hint: fmt.Sprintf("see `%s --help`", cmd.CommandPath())}
	if msg := err.Error(); strings.Contains(msg, "'w' in -w") || strings.Contains(msg, "--write-out") {
		e.Hint = "etcdctl's -w/--write-out is -o here: -o table, -o json or -o yaml"
	}
	return e
}

// commandName is a command's path without the name of the binary, which every
// error line begins with anyway.
func commandName(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), "kvd ")
}
