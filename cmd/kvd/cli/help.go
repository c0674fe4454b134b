package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// help is what every command says of itself beside its flags. The template
// below prints it in one order for all of them.
type help struct {
	Long    string
	Cost    string // what running it costs the cluster, in one or two sentences
	Example string
	Exits   []int // exit codes beside 0, 1, 2 and 130
}

const (
	annotationCost = "cost"
	annotationExit = "exit-status"
)

// apply puts the help onto a command.
func (h help) apply(cmd *cobra.Command) *cobra.Command {
	cmd.Long = strings.TrimSpace(h.Long)
	cmd.Example = strings.TrimRight(strings.Trim(h.Example, "\n"), " \t\n")
	cmd.Annotations = map[string]string{
		annotationCost: strings.TrimSpace(h.Cost),
		annotationExit: strings.TrimRight(exitStatus(h.Exits...), "\n"),
	}
	return cmd
}

// usageTemplate is cobra's, in kvd's order: what it does, usage, examples,
// flags, what it costs, what the exit status means.
const usageTemplate = `USAGE
  {{if .Runnable}}{{.UseLine}}{{else}}{{.CommandPath}} [command]{{end}}
{{if .HasExample}}
EXAMPLES
{{.Example}}
{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if .Groups}}{{range $group := .Groups}}
{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{else}}
COMMANDS{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{end}}{{if .HasAvailableLocalFlags}}
FLAGS
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableInheritedFlags}}
GLOBAL FLAGS
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{with index .Annotations "cost"}}
COST
  {{.}}
{{end}}{{with index .Annotations "exit-status"}}
EXIT STATUS
{{.}}
{{end}}`
