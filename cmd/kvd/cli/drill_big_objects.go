package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/fault"
)

// largestObject leaves room for key and message below etcd's --max-request-bytes
// (1.5 MiB, server/embed/config.go), in bytes.
const largestObject = 1536<<10 - 8<<10

// drillBigObjectsOptions are the flags of kvd drill big-objects.
type drillBigObjectsOptions struct {
	painFlags
	size, chunk byteSize
	rate        float64
}

func (o *drillBigObjectsOptions) addFlags(fs *pflag.FlagSet) {
	o.size, o.chunk = 1<<20, 16<<10
	fs.Var(&o.size, "size", "what each ConfigMap holds")
	fs.Var(&o.chunk, "chunk", "what each part holds, in the remedied load")
	fs.Float64Var(&o.rate, "rate", 5, "changes in a second")
	o.painFlags.addFlags(fs, drill.DefaultPainOptions())
}

func newDrillBigObjectsCmd(app *App, run func(context.Context, *App, drill.Pain, drill.PainOptions) error) *cobra.Command {
	var o drillBigObjectsOptions
	cmd := &cobra.Command{
		Use:   "big-objects",
		Short: "Large ConfigMaps written whole, then in parts",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.size > largestObject {
				return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "drill", Msg: fmt.Sprintf("--size %s: etcd takes 1.5 MiB in a request: want %s or less", sizeText(int64(o.size)), sizeText(largestObject))}
			}
			if o.chunk < 1 || o.chunk > o.size/2 {
				return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "drill", Msg: fmt.Sprintf("--chunk %s: want half of --size or less, %s", sizeText(int64(o.chunk)), sizeText(int64(o.size)))}
			}
			return run(cmd.Context(), app, drill.BigObjects(int64(o.size), int64(o.chunk), o.rate), o.options())
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Starts an etcd of real kvd serve processes on loopback, in which five controllers
write ConfigMaps of 1 MiB whole for each small change, beside the heartbeats of a
hundred nodes: all writes go through one log, and wait for each other there. kvd
diagnose looks on, and names the large values (KVD-OBJECT-001). Then, on a fresh
etcd, the same content is kept in parts of 16 KiB, of which a change writes one,
and kvd diagnose finds that no more. (Better yet is to keep it elsewhere, and its
address here.)

PROVED means: as many changes; for each of them fewer bytes written, by 0.8 times
the number of parts at least, and fewer by about as much in what etcd counts; and
the finding gone.` + painCommon,
		Cost: painCost("two processors for a minute, 300 MB of disk and 300 MB of memory per member"),
		Example: `
  kvd drill big-objects
  kvd drill big-objects --members 3 --chunk 64KiB --rate 2
  kvd drill big-objects -o json | jq '.figures[] | {what, pain, remedied, times}'`,
		Exits: painExits(),
	}.apply(cmd)
}
