package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillEndpointsOptions are the flags of kvd drill endpoints.
type drillEndpointsOptions struct {
	painFlags
	pods int
	rate float64
}

func (o *drillEndpointsOptions) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.pods, "pods", 1000, "pods of the Service; one Endpoints object lists 1000 at most")
	fs.Float64Var(&o.rate, "pod-rate", 10, "pods replaced in a second")
	o.painFlags.addFlags(fs, drill.DefaultPainOptions())
}

func newDrillEndpointsCmd(app *App, run func(context.Context, *App, drill.Pain, drill.PainOptions) error) *cobra.Command {
	var o drillEndpointsOptions
	cmd := &cobra.Command{
		Use:   "endpoints",
		Short: "One Endpoints object for a large Service, then EndpointSlices",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), app, drill.Endpoints(o.pods, o.rate), o.options())
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts an etcd of real kvd serve processes on loopback and replaces the pods of
a Service one after the other, as a rolling update does. All addresses are in one
Endpoints object, 157 kB for a thousand pods, which the controller writes whole
for each change, and which etcd sends with its old version to a watcher of each of
three API servers. kvd diagnose looks on, and names the object (KVD-OBJECT-002).
Then, on a fresh etcd, the same Service has EndpointSlices of 100 addresses, and
kvd diagnose finds that no more.

PROVED means: as many changes; for each of them fewer bytes written, by 0.8 times
the number of slices at least, and fewer by about as much in what etcd counts; and
the finding gone. It takes a large Service: of 100 pods the object has 16 kB, a
slice even a little more, and nothing is reproduced.` + painCommon,
		Cost: painCost("two processors for a minute, 250 MB of disk and 300 MB of memory per member"),
		Example: `
  kvd drill endpoints
  kvd drill endpoints --members 3 --pod-rate 5
  kvd drill endpoints -o json | jq '.figures[] | {what, pain, remedied, times}'`,
		Exits: painExits(),
	}.apply(cmd)
}
