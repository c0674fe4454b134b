package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/snapshot"
)

// snapshotVerifyOptions are the flags of kvd snapshot verify.
type snapshotVerifyOptions struct {
	snapshot.Options
	file     string
	skipHash bool
	boot     bool
}

func (o *snapshotVerifyOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Live, "live", false, "read the file although a running server holds it: it may be torn")
	addSpoolDir(fs, &o.SpoolDir, "the system's folder for temporary files")
	fs.BoolVar(&o.skipHash, "skip-hash-check", false, "a file without a hash that is well otherwise passes, as it does in a restore with that flag")
	fs.BoolVar(&o.boot, "boot", false, "also restore it into a temporary folder and start a real member on that")
}

func newSnapshotVerifyCmd(app *App, run func(context.Context, *App, snapshotVerifyOptions) error) *cobra.Command {
	var o snapshotVerifyOptions
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Whether a snapshot or backend file restores, and if not, what is wrong with it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Checks a file the way a restore and the first start would, and further: the
SHA-256 behind the pages; that every page is there, is what the pages above it
say, and is referred to once; that keys ascend; that every record decodes and
agrees with its revision; that this etcd can follow its schema. Damage is named
by class, with page, offset, and the revisions that are lost with it.

The verdict is one of
  restorable             a restore takes it, with all that was saved
  restorable_unproven    all is well, but no hash proves the values
  restorable_with_loss   a restore can be made to take it; something is changed or missing
  not_restorable         a restore refuses it, or the server ends on it
and the exit code is 0 for the first, 3 for the others (--skip-hash-check lets the
second pass too).

With --boot the proof is a trial: the file is restored into a temporary folder
(TMPDIR), "kvd serve" starts on that as a child process on loopback, its own digest
of the keys at the file's revision must be the file's, and it has to take a write
and give it back through its quorum. Then process and folder go. Where
authentication is on, no password is asked for: all but the write is checked, and
the result says so.`,
		Cost: `Reads the file once for its hash and its keys twice, with bounded memory; needs no cluster and writes
  nothing. While it reads, a server that starts on that very file waits. --boot writes a copy of the file, and the
  memory that a member needs for it.`,
		Example: `
  kvd snapshot verify backup.db
  kvd snapshot verify backup.db && upload backup.db
  kvd snapshot verify backup.db --boot
  kvd snapshot verify copied-member-snap-db --skip-hash-check
  kvd snapshot verify backup.db -o json | jq -r '.verdict, .findings[].message'`,
		Exits: []int{3, 4, 5, 8},
	}.apply(cmd)
}

func runSnapshotVerify(ctx context.Context, app *App, o snapshotVerifyOptions) error {
	v, err := o.verify(ctx, app)
	if v == nil {
		return err
	}
	if err == nil && v.Verdict != snapshot.Restorable && (v.Verdict != snapshot.Unproven || !o.skipHash) {
		err = &fault.Error{Kind: fault.Wanting, Cause: string(v.Class), Op: "snapshot verify", Subject: o.file,
			Msg: v.Verdict.Words() + ": " + v.Summary, Hint: v.Hint}
	}
	return errors.Join(app.Print(v, verificationTable(v)), err)
}

func (o *snapshotVerifyOptions) verify(ctx context.Context, app *App) (*snapshot.Verification, error) {
	switch {
	case !o.boot:
		return snapshot.Verify(ctx, o.file, o.Options, app.Progress())
	case o.Live:
		return nil, &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "snapshot verify", Msg: "--boot and --live: what may be torn is not restored"}
	}
	return snapshot.VerifyBoot(ctx, o.file, snapshot.BootOptions{SpoolDir: o.SpoolDir}, app.Progress())
}

// verificationTable draws a judgement: the verdict, then its reasons.
func verificationTable(v *snapshot.Verification) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintf(w, "%s: %s (%s)\n", render.Safe(v.File), v.Verdict.Words(), v.Class)
		fmt.Fprintf(w, "%s\n", render.Safe(v.Summary))
		if c := v.Content; c != nil {
			fmt.Fprintf(w, "%s, %s, revision %d, compacted %d, %s\n", count(int(c.Keys), "key"), count(int(c.Revisions), "record"), c.Revision, c.CompactRevision, sizeText(v.SizeBytes))
		}
		if b := v.Boot; b != nil {
			fmt.Fprintf(w, "boot: %s (%s)\n", render.Safe(b.Summary), seconds(b.TookSeconds))
			for _, n := range b.NotChecked {
				fmt.Fprintf(w, "boot: not checked: %s\n", render.Safe(n))
			}
		}
		if len(v.Findings) == 0 {
			return nil
		}
		fmt.Fprintln(w)
		return findingColumns().Write(w, v.Findings)
	}
}

func findingColumns() render.Columns[snapshot.Finding] {
	type f = snapshot.Finding
	return render.Columns[f]{
		{Header: "severity", Value: func(x f) string { return string(x.Severity) }},
		{Header: "class", Value: func(x f) string { return x.Class }},
		{Header: "bucket", Value: func(x f) string { return orDash(x.Bucket) }},
		{Header: "page", Right: true, Value: func(x f) string {
			if x.Page == nil {
				return "-"
			}
			return fmt.Sprint(*x.Page)
		}},
		{Header: "lost", Value: func(x f) string {
			if x.LostFrom == "" && x.LostBefore == "" {
				return "-"
			}
			return orDefault(x.LostFrom, "start") + " … " + x.LostBefore
		}},
		{Header: "what", Value: func(x f) string { return x.Message }},
	}
}
