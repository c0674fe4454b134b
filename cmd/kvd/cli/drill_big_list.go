package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillBigListOptions are the flags of kvd drill big-list.
type drillBigListOptions struct {
	painFlags
	pods, clients int
	remedy        string
}

func (o *drillBigListOptions) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.pods, "pods", 10000, "pods that there are, of 3.7 KiB each")
	fs.IntVar(&o.clients, "clients", 10, "clients that read all of them, again and again")
	fs.StringVar(&o.remedy, "remedy", drill.RemedyStream, "what to do about it: stream (RangeStream), pages (of 500) or cache (that of the API servers)")
	d := drill.DefaultPainOptions()
	d.Duration = drill.ListDuration
	o.painFlags.addFlags(fs, d)
}

func newDrillBigListCmd(app *App, run func(context.Context, *App, drill.Pain, drill.PainOptions) error) *cobra.Command {
	var o drillBigListOptions
	cmd := &cobra.Command{
		Use:   "big-list",
		Short: "Everything in one answer, then as a stream, in pages, or from a cache",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := drill.BigList(o.pods, o.clients, o.remedy)
			if err != nil {
				return err
			}
			return run(cmd.Context(), app, p, o.options())
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts an etcd of real kvd serve processes on loopback with --pods pods, which
--clients clients read again and again, each time all of them in one answer, beside
the heartbeats of a hundred nodes. etcd puts an answer together whole before it
sends the first byte, and holds it until the last is sent: memory grows by all
answers under way, which is what ends etcd where there is just enough. kvd
diagnose looks on, with its first sample before the lists, and sees memory grow
(KVD-MEM-001). Then, on a fresh etcd, the same clients read the same pods another
way, and kvd diagnose finds that no more.

  --remedy stream  RangeStream, etcd 3.7's, in chunks of some 1.5 MiB: as API
                   servers of Kubernetes 1.37 do
  --remedy pages   pages of 500: as kubectl does. Each page has etcd count what is
                   left
  --remedy cache   from the API servers' caches, which ask etcd for the revision
                   they must have: as clients get that list with resourceVersion=0,
                   or without one from Kubernetes 1.31 on

PROVED means: the peak of a member's memory is half of what it was, or less, and
the finding gone. A client lists again 100 ms after its answer, so that more lists
are done where they are quicker.` + painCommon,
		Cost: painCost("two processors for a minute, 150 MB of disk and 1.2 GB of memory per member, and as much in this process"),
		Example: `
  kvd drill big-list
  kvd drill big-list --remedy pages
  kvd drill big-list --pods 20000 --clients 6 --remedy cache -o json | jq '.figures[0]'`,
		Exits: painExits(),
	}.apply(cmd)
}
