package cli

import (
	"github.com/spf13/cobra"

	"kvd/cmd/kvd/cli/config"
	"kvd/pkg/ops/fault"
)

// applyDefaults fills in the global flags that were not given from KVD_OUTPUT and
// KVD_PROGRESS, else from the config file's defaults.
func (a *App) applyDefaults(cmd *cobra.Command) error {
	var file *config.File
	for _, name := range []string{"output", "progress"} {
		flag := cmd.Flags().Lookup(name)
		if flag == nil || flag.Changed {
			continue
		}
		value, origin := a.Getenv(config.EnvName(name)), config.EnvName(name)
		if value == "" {
			if file == nil {
				var err error
				if file, err = config.Load(a.Global.ConfigFile, a.Getenv); err != nil {
					return err
				}
			}
			value, origin = file.Default(name), file.Path
		}
		if value == "" {
			continue
		}
		if err := flag.Value.Set(value); err != nil {
			return &fault.Error{Kind: fault.Usage, Cause: "config_value", Op: name, Subject: origin, Msg: err.Error()}
		}
	}
	return nil
}
