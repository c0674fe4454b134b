package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"kvd/cmd/kvd/cli/config"
	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// whenNothingRuns says, where no member answered as one that runs does, what is left to
// look at: the files tell which data are the newest, and whether a start takes them. It
// is said before anybody starts a member on nothing: an empty voter may give its vote to
// one that lacks what was acknowledged.
func (a *App) whenNothingRuns(err error) error {
	if fault.KindOf(err) == fault.Unavailable && cluster.MayBeGone(err) {
		a.warn("no endpoint answers. If these are the right ones: see on each member's machine whether its process runs, or is stopped (`ps`: state T). " +
			"`kvd diagnose --data-dir DIR` says there whether it would start, and with the directories of several which is the newest. " +
			"Until a quorum is back start no member with an empty data directory, and none with --force-new-cluster")
	}
	return err
}

// whereFlags say which cluster is meant and how to get in, in the order in which they
// are written. A password is not among them: it would be left in tickets.
func whereFlags() []string {
	return []string{"config", "cluster-name", config.Endpoints, config.CACert, config.Cert, config.Key, config.ServerName, config.SkipVerify,
		config.Insecure, config.User, config.PasswordFile}
}

// repeatConnection adds to each next command the flags that this one found the cluster
// by, so that it goes to no other when it is typed as it stands. What the environment or
// the config file say is there for the next command as well.
func (o diagnoseOptions) repeatConnection(r diagnose.Report) {
	given := o.client.given()
	for _, f := range r.Findings {
		for i := range f.Next {
			f.Next[i].Command = connected(o.kvd, f.Next[i].Command, given)
		}
	}
}

// connected is a command with those of the given flags that it takes.
func connected(root *cobra.Command, command string, given map[string]string) string {
	words := strings.Fields(command)
	if len(words) < 2 || words[0] != "kvd" || ofFiles(command) {
		return command
	}
	cmd, _, err := root.Find(words[1:])
	if err != nil || cmd.Flags().Lookup(config.Endpoints) == nil {
		return command
	}
	for _, name := range whereFlags() {
		value, ok := given[name]
		flag := cmd.Flags().Lookup(name)
		if flag == nil {
			flag = cmd.InheritedFlags().Lookup(name)
		}
		if !ok || flag == nil {
			continue
		}
		if name == config.User {
			value, _, _ = strings.Cut(value, ":")
		}
		command += " --" + name
		if flag.Value.Type() != "bool" {
			command += " " + diagnose.ShellWord(value)
		} else if value != "true" {
			command += "=" + value
		}
	}
	return command
}

// ofFiles reports a command that looks at files, or names its endpoint itself.
func ofFiles(command string) bool {
	for _, of := range []string{"kvd keys list ", "kvd keys usage "} { // SOURCE comes first where there is one
		if rest, ok := strings.CutPrefix(command, of); ok && !strings.HasPrefix(rest, "-") {
			return true
		}
	}
	for _, flag := range []string{" --data-dir ", " --disk ", " --snapshot ", " --metrics ", " --" + config.Endpoints + " "} {
		if strings.Contains(command+" ", flag) {
			return true
		}
	}
	return false
}
