package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/codec"
)

// keysGetOptions are the flags and the arguments of kvd keys get.
type keysGetOptions struct {
	keyspace.Describer
	keyArgs
	rev int64
	raw bool
}

func (o *keysGetOptions) addFlags(fs *pflag.FlagSet) {
	o.source.addFlags(fs)
	o.source.streams = true
	fs.Int64Var(&o.rev, "rev", 0, "as it was at this revision (default: the latest)")
	fs.BoolVar(&o.raw, "raw", false, "print the value's bytes as they are stored, and nothing else")
	fs.BoolVar(&o.ShowValues, "show-values", false, "also what a Secret holds")
}

func newKeysGetCmd(app *App, run func(context.Context, *App, keysGetOptions) error) *cobra.Command {
	var o keysGetOptions
	cmd := &cobra.Command{
		Use:   "get KEY [SOURCE]",
		Short: "One key and its value, decoded, now or at a revision",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.read("keys get", args), o.check()); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Shows a key, written as kvd prints it (\x00 is a byte), with its value as "kvd keys
list --values" decodes it: YAML under a heading, without managedFields; -o json and
-o yaml have those too. SOURCE is a data directory, a database file or a snapshot;
without it a running cluster is asked.

The object is what the API shows: its resourceVersion, which is not stored, is the
revision of the last write. What a Secret holds is masked, and its bytes are refused,
unless --show-values is given. Exits with 3 where there is no such key.`,
		Cost: `From a cluster: some twenty small requests to one member, answered without the quorum. A file is read once;
  nothing is written to it.`,
		Example: `
  kvd keys get /registry/deployments/default/web
  kvd keys get /registry/deployments/default/web --rev 120000 > before.yaml
  kvd keys get /registry/deployments/default/web backup.db -o json | jq .value.object.spec
  kvd keys get /registry/pods/default/web-0 --raw | protoc --decode_raw`,
		Exits: []int{3, 4, 5, 7, 8, 9},
	}.apply(cmd)
}

func (o *keysGetOptions) check() error {
	o.Layout, o.Codec = o.source.layout(), codec.New()
	if o.rev < 0 {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "keys get", Msg: "--rev can't be negative"}
	}
	return nil
}

func runKeysGet(ctx context.Context, app *App, o keysGetOptions) error {
	if o.raw && app.IO.OutIsTerminal {
		return flagMisuse("keys get", "--raw", "", "prints bytes as they are: send them to a file or a pipe, not to a terminal")
	}
	src, err := o.source.open(ctx, app, "keys get", o.path)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // it was only read
	found := false
	err = src.Keys(ctx, keyspace.Query{From: o.key, End: o.key + "\x00", Rev: o.rev}, func(it *keyspace.Item) error {
		found = true
		e := o.Decode(it)
		if !o.raw {
			return app.Print(&e, func(w io.Writer) error { return drawEntry(w, &e) })
		}
		if e.Value.Masked {
			return &fault.Error{Kind: fault.Refused, Cause: "secret", Op: "keys get", Subject: o.key,
				Msg: "the bytes of a Secret are shown only if asked for", Hint: "add --show-values"}
		}
		_, err := app.IO.Out.Write(it.Value)
		return err
	})
	if err == nil && !found {
		at := "the latest revision"
		if o.rev > 0 {
			at = fmt.Sprintf("revision %d", o.rev)
		}
		return o.missing("keys get", src.Name()+" does not have it at "+at, "`kvd keys history` shows whether it was there, and when it was deleted")
	}
	return err
}
