package cli

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops/wal"
)

// walStatsOptions are the flags and the argument of kvd wal stats.
type walStatsOptions struct {
	wal.StatsOptions
	dir  string
	kube kubePrefix
}

func (o *walStatsOptions) addFlags(fs *pflag.FlagSet) {
	o.StatsOptions = wal.DefaultStatsOptions()
	fs.IntVar(&o.Top, "top", o.Top, "rows of each list but those of types and segments, the largest first (0: all that are kept)")
	o.kube.addFlags(fs)
}

func newWALStatsCmd(app *App, run func(context.Context, *App, walStatsOptions) error) *cobra.Command {
	var o walStatsOptions
	cmd := &cobra.Command{
		Use:   "stats DIR",
		Short: "Who writes: a write-ahead log by type, prefix, namespace, key and lease",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			if o.Top < 0 {
				return flagMisuse("wal stats", "--top", strconv.Itoa(o.Top), "is less than none")
			}
			o.Layout = o.kube.in(o.Layout)
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Counts what is in a log, which is what was written lately: entries by type and by
user; puts and deletes, also those in either branch of a transaction, by the
prefix of the resource (of keys that are not Kubernetes' the first part), by
namespace and by key; puts by the lease that they are on; the largest entries; and
how much is in each segment. The share is of the bytes of all entries.

DIR is a data directory, its member folder or a WAL folder, of a stopped server or
of a running one. A log is kept for as long as followers or a restart may need it:
by default some of its segments of 64 MB, be they of an hour or of a month.

Of keys and of leases 32,768 are kept, those with the most bytes, and 4 MiB of
keys; of the largest entries 1000. Where there were more keys or leases, it is said
by how much the figures can be too small.`,
		Cost: `Reads all segments once, with bounded memory. Nothing is locked, nothing is written, and nothing is sent to a cluster.`,
		Example: `
  kvd wal stats /var/lib/etcd
  kvd wal stats /var/lib/etcd --top 3 -o json | jq '.prefixes'`,
		Exits: []int{4, 7, 8},
	}.apply(cmd)
}

// statsMemory is from how many bytes on memory that is no longer used is looked for more
// often. Little is in use, but keys can be as long as a request, and a log that is read as
// fast as it can be copied leaves much behind.
const statsMemory = 40 << 20

func runWALStats(ctx context.Context, app *App, o walStatsOptions) error {
	if debug.SetMemoryLimit(-1) > statsMemory { // the environment may want less
		debug.SetMemoryLimit(statsMemory)
	}
	s, err := wal.GatherStats(ctx, o.dir, o.StatsOptions)
	if s == nil {
		return err
	}
	if s.Torn != nil {
		warnTorn(app, s.Torn, s.Live)
	}
	return errors.Join(app.Print(s, func(w io.Writer) error { return drawWALStats(w, s) }), err)
}
