package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kvd/cmd/kvd/cli/config"
	"kvd/cmd/kvd/cli/render"
)

// newConfigCmd groups what concerns kvd's own configuration.
func newConfigCmd(app *App) *cobra.Command {
	return newGroupCmd("config", "Show what kvd would connect to, and why", newConfigViewCmd(app, runConfigView))
}

func newConfigViewCmd(app *App, run func(context.Context, *App, clientFlags) error) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Each setting of the connection, and where it comes from",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), app, f) },
	}
	f.addFlags(cmd.Flags())
	return help{
		Long: `
Shows what a command with the same flags and environment would connect to, and
where each setting comes from. Where a cluster is and how to get in is taken from
one source as a whole: --cluster-name, KVD_* variables, ETCDCTL_* variables, flags,
the config file's current cluster, a kubeadm, k3s or RKE2 installation on this
machine, or http://127.0.0.1:2379; a flag that is given replaces one setting of
it. Passwords are not shown.`,
		Cost: "Nothing: it connects to nothing.",
		Example: `
  kvd config view
  kvd config view --cluster-name prod
  kvd config view -o json | jq -r .source`,
	}.apply(cmd)
}

// configView is the result of kvd config view.
type configView struct {
	Source     string         `json:"source"`
	ConfigFile string         `json:"config_file,omitempty"`
	Current    string         `json:"current,omitempty"`
	Clusters   []string       `json:"clusters"`
	Values     []config.Value `json:"values"`
	Warnings   []string       `json:"warnings,omitempty"`
}

func runConfigView(_ context.Context, app *App, f clientFlags) error {
	b, file, err := app.resolve(f)
	if err != nil {
		return err
	}
	v := configView{
		Source: b.Config.Source, ConfigFile: file.Path, Current: file.Current,
		Clusters: file.Names(), Values: b.Values, Warnings: b.Warnings,
	}
	return app.Print(v, func(w io.Writer) error { return drawConfig(w, v) })
}

func drawConfig(w io.Writer, v configView) error {
	fmt.Fprintf(w, "source: %s\n", render.Safe(v.Source))
	if v.ConfigFile != "" {
		fmt.Fprintf(w, "config file: %s\n", render.Safe(v.ConfigFile))
	}
	for _, warning := range v.Warnings {
		fmt.Fprintf(w, "warning: %s\n", render.Safe(warning))
	}
	return configColumns().Write(w, v.Values)
}

// configColumns is the table of settings and their origins.
func configColumns() render.Columns[config.Value] {
	return render.Columns[config.Value]{
		{Header: "setting", Value: func(v config.Value) string { return v.Key }},
		{Header: "value", Value: func(v config.Value) string { return v.Value }},
		{Header: "origin", Value: func(v config.Value) string { return v.Origin }},
	}
}
