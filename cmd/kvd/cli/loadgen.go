package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// newLoadgenCmd groups the loads. Each scenario is a file of its own.
func newLoadgenCmd(app *App) *cobra.Command {
	return newGroupCmd("loadgen", "Put Kubernetes' load on a cluster, and measure how it takes it",
		newScenarioCmd(app, runLoad, heartbeatsHelp(), func() scenarioFlags { return &heartbeatFlags{} }),
		newScenarioCmd(app, runLoad, listHelp(), func() scenarioFlags { return &listFlags{} }),
		newScenarioCmd(app, runLoad, endpointsHelp(), func() scenarioFlags { return &endpointFlags{} }),
		newScenarioCmd(app, runLoad, objectsHelp(), func() scenarioFlags { return &objectFlags{} }),
		newScenarioCmd(app, runLoad, eventsHelp(), func() scenarioFlags { return &eventFlags{} }),
		newScenarioCmd(app, runLoad, watchHelp(), func() scenarioFlags { return &watchFlags{} }),
		newScenarioCmd(app, runLoad, podsHelp(), func() scenarioFlags { return &podFlags{} }),
		newScenarioCmd(app, runLoad, relistHelp(), func() scenarioFlags { return &relistFlags{} }),
		newScenarioCmd(app, runLoad, clusterLoadHelp(), func() scenarioFlags { return &clusterLoadFlags{} }),
		newLoadgenReportCmd(app, runLoadgenReport), newLoadgenCompareCmd(app, runLoadgenCompare), newLoadgenCleanCmd(app, runLoadgenClean))
}

// newScenarioCmd makes the command of a scenario.
func newScenarioCmd(app *App, run func(context.Context, *App, *loadOptions) error, h scenarioHelp, knobs func() scenarioFlags) *cobra.Command {
	o := &loadOptions{knobs: knobs()}
	cmd := &cobra.Command{
		Use:   h.use + " [--ab VARIANT_A VARIANT_B]",
		Short: h.short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.ab.take(args); err != nil {
				return err
			}
			if o.ab.given() {
				return runAB(cmd.Context(), app, o, knobs)
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return h.help.apply(cmd)
}

// scenarioHelp is what a scenario says of itself.
type scenarioHelp struct {
	use, short string
	help
}
