package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillEventsOptions are the flags of kvd drill events.
type drillEventsOptions struct {
	painFlags
	rate float64
}

func (o *drillEventsOptions) addFlags(fs *pflag.FlagSet) {
	fs.Float64Var(&o.rate, "rate", 250, "Events a second; one in five repeats an earlier one")
	o.painFlags.addFlags(fs, drill.DefaultPainOptions())
}

func newDrillEventsCmd(app *App, run func(context.Context, *App, drill.Pain, drill.PainOptions) error) *cobra.Command {
	var o drillEventsOptions
	cmd := &cobra.Command{
		Use:   "events",
		Short: "A flood of Events with a lease each, then with leases that many share",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), app, drill.Events(o.rate), o.options())
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts an etcd of real kvd serve processes on loopback and writes --rate Events
in a second, beside the heartbeats of a hundred nodes. Each Event has a lease of
its own, as before kube-apiserver gave leases out again: the grant is a raft
entry and a record of the log on every member, the Event is another, and the end
of the lease, an hour later, a third. kvd diagnose looks on, and finds that
leases are made at a high rate (KVD-LEASE-004). Then, on a fresh one, the same
Events, of which up to 1000 within a minute have one lease.

PROVED means: as many Events, ten times fewer leases granted and left standing, a
third fewer raft entries for each Event, and the finding gone. A shorter TTL
(kube-apiserver's --event-ttl) changes how many Events there are at a time, and
neither how many leases are made nor how much is written; an etcd of their own
(--etcd-servers-overrides) takes all of it away from the other objects.` + painCommon,
		Cost: painCost("two processors for a minute, 100 MB of disk and 150 MB of memory per member"),
		Example: `
  kvd drill events
  kvd drill events --rate 300 --members 3
  kvd drill events -o json | jq '.figures[] | {what, pain, remedied, times}'`,
		Exits: painExits(),
	}.apply(cmd)
}
