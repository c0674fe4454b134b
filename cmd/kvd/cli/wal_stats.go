package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
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

func drawWALStats(w io.Writer, s *wal.Stats) error {
	fmt.Fprintf(w, "%s: %d entries, %s, index %d to %d, commit %d", render.Safe(s.Dir), s.Entries, sizeText(s.Bytes), s.First.Index, s.Last.Index, s.Commit)
	if s.Overwritten > 0 {
		fmt.Fprintf(w, ", %d of them replaced by a later leader", s.Overwritten)
	}
	fmt.Fprintln(w)
	err := errors.Join(
		drawAmounts(w, "type", s.Types, func(x wal.TypeAmount) (string, wal.Amount) { return string(x.Type), x.Amount }),
		drawAmounts(w, "prefix", s.Prefixes, func(x wal.PrefixAmount) (string, wal.Amount) {
			return orDefault(string(x.Prefix), "(no prefix)"), x.Amount
		}),
		drawAmounts(w, "namespace", s.Namespaces, func(x wal.NameAmount) (string, wal.Amount) { return x.Name, x.Amount }),
		drawAmounts(w, "key", s.Keys, func(x wal.KeyAmount) (string, wal.Amount) { return string(x.Key), x.Amount }),
		drawAmounts(w, "lease", s.Leases, func(x wal.LeaseAmount) (string, wal.Amount) { return x.Lease.String(), x.Amount }),
		drawAmounts(w, "user", s.Users, func(x wal.NameAmount) (string, wal.Amount) { return x.Name, x.Amount }),
		drawBiggest(w, s.Biggest),
		drawAmounts(w, "segment", s.Segments, func(x wal.SegmentAmount) (string, wal.Amount) { return x.Name, x.Amount }))
	for _, m := range []struct {
		name string
		wal.Amount
	}{{"key", s.KeysUncounted}, {"lease", s.LeasesUncounted}} {
		if m.Count > 0 {
			fmt.Fprintf(w, "\nmore %ss than are kept: one may have had up to %s and %s more than is shown\n", m.name, count(int(m.Count), "write"), sizeText(m.Bytes))
		}
	}
	return err
}

// drawAmounts draws a list under the name of what it counts; an empty one is left out.
func drawAmounts[T any](w io.Writer, name string, rows []T, of func(T) (string, wal.Amount)) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	amount := func(x T) wal.Amount { _, a := of(x); return a }
	return render.Columns[T]{
		{Header: name, Value: func(x T) string { s, _ := of(x); return s }},
		{Header: "count", Right: true, Value: func(x T) string { return strconv.FormatInt(amount(x).Count, 10) }},
		{Header: "bytes", Right: true, Value: func(x T) string { return sizeText(amount(x).Bytes) }},
		{Header: "share", Right: true, Value: func(x T) string { return fmt.Sprintf("%.1f%%", 100*amount(x).Share) }},
	}.Write(w, rows)
}

func drawBiggest(w io.Writer, rows []wal.BigEntry) error {
	if len(rows) == 0 {
		return nil
	}
	type b = wal.BigEntry
	fmt.Fprintln(w, "\nthe largest entries")
	return render.Columns[b]{
		{Header: "index", Right: true, Value: func(x b) string { return strconv.FormatUint(x.Index, 10) }},
		{Header: "size", Right: true, Value: func(x b) string { return sizeText(x.Bytes) }},
		{Header: "type", Value: func(x b) string { return string(x.Type) }},
		{Header: "writes", Right: true, Value: func(x b) string { return strconv.Itoa(x.Writes) }},
		{Header: "first key", Value: func(x b) string {
			if x.KeyBytes > 0 {
				return fmt.Sprintf("%s… (%d bytes)", x.Key, x.KeyBytes)
			}
			return orDash(string(x.Key))
		}},
		{Header: "file", Value: func(x b) string { return x.File }},
		{Header: "offset", Right: true, Value: func(x b) string { return strconv.FormatInt(x.Offset, 10) }},
	}.Write(w, rows)
}
