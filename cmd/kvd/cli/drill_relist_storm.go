package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
)

// drillRelistOptions are the flags of kvd drill relist-storm.
type drillRelistOptions struct {
	painFlags
	objects, apiservers int
	remedy              string
}

func (o *drillRelistOptions) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.objects, "objects", 5000, "pods that there are, and as many ConfigMaps")
	fs.IntVar(&o.apiservers, "apiservers", drill.RelistAPIServers, "who begin anew at the same moment")
	fs.StringVar(&o.remedy, "remedy", drill.RelistPages, "how they read then: pages, or stream (etcd 3.7's RangeStream)")
	d := drill.DefaultPainOptions()
	d.Duration = drill.RelistDuration
	o.painFlags.addFlags(fs, d)
}

func newDrillRelistCmd(app *App, run func(context.Context, *App, drill.Pain, drill.PainOptions) error) *cobra.Command {
	var o drillRelistOptions
	cmd := &cobra.Command{
		Use:   "relist-storm",
		Short: "API servers that begin anew with whole lists, then with pages or streams",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := drill.RelistStorm(o.objects, o.apiservers, o.remedy, o.options())
			if err != nil {
				return err
			}
			return run(cmd.Context(), app, p, o.options())
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts an etcd of real kvd serve processes on loopback with --objects pods and as
many ConfigMaps, and has --apiservers API servers begin anew at the same moment,
as after a restart, or after a compaction that their watches did not outlive:
each reads every resource, and then follows it by a watch. First each reads a
resource in one answer, which etcd holds in memory twice, as objects and as the
message, for each of them. kvd diagnose looks on, and finds that memory grows
suddenly (KVD-MEM-001, by 512 MiB or more). Then, on a fresh one, the same API
servers read by another way:

  --remedy pages    pages of 500 objects, as client-go's reflectors
  --remedy stream   RangeStream, which etcd 3.7 has: parts of an answer, sent as
                    they are read

PROVED means: the same caches were to be filled, memory grew by a third less or
more than that, and the finding is gone.` + painCommon + `

A machine that has no processor time for it does not get that far within
--duration: then nothing was reproduced, and a longer one helps.`,
		Cost: painCost("two processors for two minutes, 100 MB of disk, 1 GB of memory for the server and as much for the generator"),
		Example: `
  kvd drill relist-storm
  kvd drill relist-storm --remedy stream
  kvd drill relist-storm -o json | jq '.pain.gauges, .remedied.gauges'`,
		Exits: painExits(),
	}.apply(cmd)
}
