package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kvd/pkg/ops/fault"
)

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
			return unknownCommand(c, args[0])
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

// unknownCommand says so of a word that the command holds no command for.
func unknownCommand(cmd *cobra.Command, word string) error {
	e := &fault.Error{Kind: fault.Usage, Cause: "unknown_command",
		Msg:  fmt.Sprintf("unknown command %q for %q", word, cmd.CommandPath()),
		Hint: fmt.Sprintf("see `%s --help`", cmd.CommandPath())}
	if s := cmd.SuggestionsFor(word); len(s) > 0 {
		e.Hint = fmt.Sprintf("did you mean `%s %s`?", cmd.CommandPath(), s[0])
	}
	return e
}

// flagError makes a usage error of what pflag says, and knows what people type
// who come from etcdctl. A command that only holds others has no flags of its own:
// the word before the flag was to be one of those, and is what is wrong.
func flagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0])
	}
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
	return strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "kvd"))
}
