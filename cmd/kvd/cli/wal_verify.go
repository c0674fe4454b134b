package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wal"
)

// walVerifyOptions are the flags of kvd wal verify.
type walVerifyOptions struct {
	wal.VerifyOptions
	dir    string
	failOn string
}

func (o *walVerifyOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.DB, "db", "", "the member's database (default: DIR's own, beside the log)")
	fs.StringVar(&o.failOn, "fail-on", string(wal.Warning), "from which severity of findings on the exit code is 3: warning or critical")
}

func newWALVerifyCmd(app *App, run func(context.Context, *App, walVerifyOptions) error) *cobra.Command {
	var o walVerifyOptions
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "What an etcd server does when it starts on a log, and what is damaged or lost",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Walks through a log from end to end, on behind damage too, holds it against the
database beside it, and says what etcd 3.7 does when it starts on the two:
  starts            all is there; whether the cluster has removed this member
                    since, which ends it again, only the others know
  repairs_itself    it cuts off a record that is not whole, keeps a copy, and starts
  drops_records     it starts, and without a word fills with zeros what stands
                    behind a damaged length
  answers_nothing   it runs and listens, and serves nothing for some time
  refuses_to_start  it ends, with words that are shown
  not_known         the database cannot be read, or it depends on the peers

Each damage is told with file, offset, record, entry, both CRCs, where records
begin again, and the entries that are lost if the log ends there. Last entry,
commit index, newest snapshot record and the database's consistent index stand
side by side. What looks odd and is in order is told as such (info), and what to
do next as a command.

A finding is a warning where a start deals with it, and critical where it does not
or something is lost by it. DIR is a data directory, its member folder or a WAL
folder, of a stopped server or a running one: a record that is just being written
is no damage. Nothing is locked, nothing is written, nothing is repaired.

Of the database only what has to fit the log is read. A start reads all of it, and
ends on a page that is damaged: "kvd snapshot verify" tells that.`,
		Cost: `Reads all segments once, with bounded memory, and a few pages of the database (all of one that was cut off). Nothing is sent to a cluster.`,
		Example: `
  kvd wal verify /var/lib/etcd
  kvd wal verify /var/lib/etcd --fail-on critical       # a torn last record is no reason to wake anybody
  kvd wal verify /mnt/wal --db /var/lib/etcd/member/snap/db
  kvd wal verify /var/lib/etcd -o json | jq '.verdict, .numbers'`,
		Exits: []int{3, 4, 8},
	}.apply(cmd)
}

func runWALVerify(ctx context.Context, app *App, o walVerifyOptions) error {
	if o.failOn != string(wal.Warning) && o.failOn != string(wal.Critical) {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "wal verify", Msg: fmt.Sprintf("--fail-on %q: want warning or critical", o.failOn)}
	}
	v, err := wal.Verify(ctx, o.dir, o.VerifyOptions)
	if err != nil {
		return err
	}
	if f := v.Worst(); f != nil && (f.Severity == wal.Critical || f.Severity == wal.Warning && o.failOn == string(wal.Warning)) {
		said := fmt.Sprintf("%s (%s): %s", v.Verdict.Outcome.Words(), f.Severity, f.Says)
		if f.Cause == wal.CauseDiskFull { // whatever is in the files
			said = fmt.Sprintf("%s: %s", f.Severity, f.Says)
		}
		err = &fault.Error{Kind: fault.Wanting, Cause: f.Cause, Op: "wal verify", Subject: o.dir, Msg: said, Hint: f.Hint}
	}
	return errors.Join(app.Print(v, walVerifyTable(v)), err)
}
