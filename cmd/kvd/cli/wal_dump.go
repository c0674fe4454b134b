package cli

import (
	"bufio"
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/wal"
)

// walDumpOptions are the flags and the argument of kvd wal dump.
type walDumpOptions struct {
	wal.DumpOptions
	dir            string
	index, term    string
	keys, prefixes []string
	minSize        byteSize
	valueBytes     byteSize
	kube           kubePrefix
}

func (o *walDumpOptions) addFlags(fs *pflag.FlagSet) {
	o.DumpOptions = wal.DefaultDumpOptions()
	fs.StringVar(&o.index, "index", "", "entries of these indexes: A..B, A.., ..B or A")
	fs.StringVar(&o.term, "term", "", "entries of these terms, written likewise")
	fs.StringSliceVar(&o.Types, "type", nil, "entries of these types: put, txn, delete_range, lease_revoke, …, or a whole family: auth, lease, conf_change")
	fs.StringArrayVar(&o.keys, "key", nil, `entries that concern this key, written as kvd prints it: \x00 is a byte`)
	fs.StringArrayVar(&o.prefixes, "prefix", nil, "entries that concern a key with this prefix, written likewise")
	fs.StringVar(&o.User, "user", "", "entries that this user asked for; only authentication makes them known")
	fs.Var(&o.minSize, "min-size", "entries whose record has at least this size")
	fs.BoolVar(&o.ShowValues, "show-values", false, "show the beginning of each value; it may be a secret")
	o.valueBytes = byteSize(o.ValueBytes)
	fs.Var(&o.valueBytes, "value-bytes", "then: so much of it; 0: all, as to put it back")
	fs.BoolVar(&o.Follow, "follow", false, "go on with what a running server appends, until interrupted")
	o.kube.addFlags(fs)
}

func newWALDumpCmd(app *App, run func(context.Context, *App, walDumpOptions) error) *cobra.Command {
	var o walDumpOptions
	cmd := &cobra.Command{
		Use:   "dump DIR",
		Short: "The entries of a write-ahead log, decoded: who wrote what",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			if err := errors.Join(o.check(), o.someUser(cmd.Flags())); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Prints each entry of a log with the request in it, as it goes: a table, or with
-o json a line of JSON for each. DIR is a data directory, its member folder or a
WAL folder, of a stopped server or of a running one.

An entry is "committed"; "uncommitted" if it is behind the commit index that the
log knows, which the last ones of any log may be; or "overwritten" if a later
leader put another in its place, so that it was never applied. What is in the log
was asked for, not necessarily done: which branch of a transaction was taken is
not in it, and a refused request is in it like any other. Where the log itself
shows that an entry had no effect, or may have had none, "effect" says so.

--key and --prefix find what concerns a key: requests that name it, ranges that
it is in, both branches of a transaction and those nested in them, and the end of
a lease that the key was on. Values are shown as their size, and with --show-values
their first 256 bytes, or as many as --value-bytes says; passwords and their hashes never. Objects of Kubernetes are
named, with their kind where the value has it.

A record that is cut short at the end of the log is told on stderr and is no
error. Other damage ends the dump with 7 and its place, behind all that stands
before it; "kvd wal verify" reads on there. With --follow it ends with 9 where the
server has removed or cut off what was not read yet.`,
		Cost: `Reads all segments twice, with bounded memory: first for what became of the entries. Nothing is locked, nothing is
  written, and nothing is sent to a cluster.`,
		Example: `
  kvd wal dump /var/lib/etcd --key /registry/pods/default/web   # who deleted it?
  kvd wal dump /var/lib/etcd --index 120000.. --type txn,put --min-size 100KiB
  kvd wal dump /var/lib/etcd --prefix /registry/secrets/ -o json | jq -r '.index'
  kvd wal dump /var/lib/etcd --type auth,conf_change
  kvd wal dump /var/lib/etcd --follow --prefix /registry/leases/`,
		Exits: []int{4, 7, 8, 9},
	}.apply(cmd)
}

// check turns what was typed into the library's options.
func (o *walDumpOptions) check() error {
	var errs [5]error
	o.Index, errs[0] = span("--index", o.index)
	o.Term, errs[1] = span("--term", o.term)
	o.Keys, errs[2] = unescapeAll("--key", o.keys)
	o.Prefixes, errs[3] = unescapeAll("--prefix", o.prefixes)
	errs[4] = checkTypes(o.Types)
	o.MinBytes, o.ValueBytes = int64(o.minSize), int64(o.valueBytes)
	o.Layout = o.kube.in(o.Layout)
	return errors.Join(errs[:]...)
}

func runWALDump(ctx context.Context, app *App, o walDumpOptions) error {
	if app.Global.Output == render.YAML {
		return noYAML("wal dump", "")
	}
	if _, err := wal.Find(o.dir); o.Follow && err == nil && wal.WrittenBy(o.dir) == "" {
		app.warn("no server has this log open: nothing follows before one is started on it")
	}
	out := bufio.NewWriterSize(app.IO.Out, 64<<10)
	print := walLines(out, app.Global.Output == render.JSON)
	sum, err := wal.Dump(ctx, o.dir, o.DumpOptions, func(l *wal.Line) error {
		if err := print(l); err != nil || !o.Follow {
			return err
		}
		return out.Flush()
	})
	err = errors.Join(err, out.Flush())
	if err == nil && sum.Shown == 0 && (sum.Entries > 0 || sum.Torn == nil) {
		app.warn("%s", nothingShown(sum))
	}
	if sum.Torn != nil {
		warnTorn(app, sum.Torn, sum.Live)
	}
	if sum.UnknownLeases > 0 {
		app.warn("%s revoked that the log does not know from the beginning: whether it held a key that was asked for is not in the log", leasesWere(sum.UnknownLeases))
	}
	if sum.HeldFull {
		app.warn("more keys were on leases than are kept in memory: of some the end of their lease is not shown; ask for fewer")
	}
	return err
}

// walLines returns what prints an entry.
func walLines(out *bufio.Writer, asJSON bool) func(*wal.Line) error {
	if asJSON {
		return jsonLines[*wal.Line](out)
	}
	text := walText{w: out}
	return text.line
}
