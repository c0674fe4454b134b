package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/ops/spool"
)

// snapshotSaveOptions are the flags of kvd snapshot save.
type snapshotSaveOptions struct {
	snapshot.SaveOptions
	client     clientFlags
	quota      quotaFlag
	noManifest bool
}

func (o *snapshotSaveOptions) addFlags(fs *pflag.FlagSet) {
	o.SaveOptions = snapshot.DefaultSaveOptions()
	o.client.addFlags(fs)
	o.quota.addFlags(fs)
	fs.StringVar(&o.Member, "member", "", "save from this member (name or ID), whatever its role and lag")
	fs.Uint64Var(&o.MaxLag, "max-lag", o.MaxLag, "pass over members that are more applied entries behind the furthest")
	fs.BoolVar(&o.WithoutQuorum, "without-quorum", false, "save what the furthest member that answers has, where no quorum says what the newest revision is")
	fs.StringVar(&o.Compression, "compress", o.Compression, "none or zstd")
	fs.StringVar(&o.Verify, "verify", o.Verify, "full: hash, pages and records; hash: only what the member sends behind the pages")
	fs.StringVar(&o.Manifest, "manifest", "", "where to put the manifest (default: DEST.json; with DEST \"-\" nowhere)")
	fs.BoolVar(&o.noManifest, "no-manifest", false, "write no manifest")
	addSpoolDir(fs, &o.SpoolDir, "the folder of DEST; with \"-\" the system's for temporary files")
	fs.BoolVar(&o.Force, "force", false, "overwrite DEST, and read a member although its file has more than 90 % of its quota")
}

// check finds what is wrong with the call.
func (o *snapshotSaveOptions) check(app *App) error {
	wrong := func(msg string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "snapshot save", Msg: msg}
	}
	switch {
	case o.Dest == "":
		return wrong("DEST is empty: name a file, or - for standard output")
	case o.Compression != spool.None && o.Compression != spool.Zstd:
		return wrong(fmt.Sprintf("--compress %q: want none or zstd", o.Compression))
	case o.Verify != snapshot.VerifiedFull && o.Verify != snapshot.VerifiedHash:
		return wrong(fmt.Sprintf("--verify %q: want full or hash", o.Verify))
	case o.noManifest && o.Manifest != "":
		return wrong("--manifest and --no-manifest contradict each other")
	case o.Dest == snapshot.Stdout && app.IO.OutIsTerminal:
		return wrong("a snapshot is nothing for a terminal: name a file, or pipe it on")
	case o.Dest == snapshot.Stdout && app.IO.OutIsClosed:
		return wrong("standard output is closed: nothing would be delivered")
	}
	if o.Manifest == "" && !o.noManifest && o.Dest != snapshot.Stdout {
		o.Manifest = snapshot.ManifestPath(o.Dest)
	}
	o.Out, o.KvdVersion = app.IO.Out, version
	return o.CheckDest()
}

func newSnapshotSaveCmd(app *App, run func(context.Context, *App, snapshotSaveOptions) error) *cobra.Command {
	var o snapshotSaveOptions
	cmd := &cobra.Command{
		Use:   "save DEST",
		Short: "Save a snapshot of the cluster that is known to restore",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dest = args[0]
			if err := o.check(app); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return snapshotSaveHelp().apply(cmd)
}

func runSnapshotSave(ctx context.Context, app *App, o snapshotSaveOptions) error {
	return app.look(ctx, o.client, func(client *cluster.Client, view cluster.View) error {
		if err := view.OneCluster("snapshot save"); err != nil {
			return err
		}
		saved, err := snapshot.Save(ctx, client, o.quota.fill(ctx, client, view), o.SaveOptions, app.Progress())
		if saved == nil {
			return err
		}
		if o.Dest == snapshot.Stdout { // which has the snapshot itself
			return errors.Join(app.printBeside(saved, savedTable(saved)), err)
		}
		return errors.Join(app.Print(saved, savedTable(saved)), err)
	})
}
