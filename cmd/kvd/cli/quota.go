package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// quotaOptions are the flags of kvd quota.
type quotaOptions struct {
	ops.QuotaOptions
	client   clientFlags
	quota    quotaFlag
	sample   byteSize
	prefix   string
	kube     kubePrefix
	top      int
	members  bool
	watch    time.Duration
	exitCode bool
}

func (o *quotaOptions) addFlags(fs *pflag.FlagSet) {
	o.QuotaOptions = ops.DefaultQuotaOptions()
	o.sample = byteSize(o.Look.SampleBytes)
	o.client.addFlags(fs)
	o.quota.addFlags(fs)
	fs.IntVar(&o.top, "top", 10, "how many prefixes and namespaces to list; 0 lists all (json has all)")
	fs.Var(&o.sample, "sample", "read at most this much: names of keys and a sample of the values")
	fs.BoolVar(&o.Look.Exact, "exact", false, "read every live value instead of a sample")
	fs.StringVar(&o.prefix, "prefix", "", `look only at keys with this prefix, written as kvd prints it: \x00 is a byte`)
	o.kube.addFlags(fs)
	fs.BoolVar(&o.members, "members-only", false, "do not look at what is stored, only at the members")
	fs.DurationVar(&o.watch, "watch", 0, "print sizes, growth and time until full at this interval, until interrupted")
	fs.Float64Var(&o.WarnAt, "warn-at", o.WarnAt, "share of its quota from which a member counts as nearly full")
	fs.BoolVar(&o.exitCode, "exit-code", false, "exit 3 where a member uses --warn-at of its quota or more, or NOSPACE is raised")
}

func newQuotaCmd(app *App, run func(context.Context, *App, quotaOptions) error) *cobra.Command {
	var o quotaOptions
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "Per member: quota, size, what is left; what fills the file; time until full",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Look.Prefix, err = unescape("quota", "--prefix", o.prefix); err != nil {
				return err
			}
			o.Content, o.Look.SampleBytes = !o.members, int64(o.sample)
			o.Look.Layout = o.kube.in(o.Look.Layout)
			if err = o.check(); err != nil {
				return err
			}
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Shows each member's own quota beside its file: size, in use, free. The smallest
quota holds for the whole cluster: the member that reaches it first makes all
read-only. Then it says what fills the file: live data, older revisions
(history), or free pages, and which prefixes and namespaces the live data is in.

Numbers of keys are exact (those of namespaces, where there are too many keys to
list, are not). Bytes come from a random sample of the values, with the 95 %
interval beside them; sizes and free pages are the server's own.`,
		Cost: `One Status request per member, and of one before etcd 3.6 its /metrics. From one follower, without the quorum: the names of keys (from the
  server's memory) and a sample of values, --sample (64 MiB) at most, in answers of about 1 MiB, at 64 MiB/s or less.
  --exact reads every live value instead. One list of the IDs of all leases.
  While NOSPACE is raised a snapshot of each member is opened and closed again, which has it count its free pages anew.
  --members-only and --watch ask the members alone, and --watch no longer for /metrics that it has read.`,
		Example: `
  kvd quota
  kvd quota --exact --top 30                  # read all live values, no estimate
  kvd quota --prefix /registry/events/        # only these keys
  kvd quota --watch 30s                       # growth, and when it will be full
  kvd quota --members-only --exit-code --warn-at 0.7   # in a probe
  kvd quota -o json | jq '.content.groups[0]'`,
		Exits: []int{3, 4, 6, 8},
	}.apply(cmd)
}

func runQuota(ctx context.Context, app *App, o quotaOptions) error {
	client, err := app.connect(o.client)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing was written
	o.Look.Timeout = client.Config().CommandTimeout
	if o.watch > 0 {
		return watchQuota(ctx, app, client, o)
	}
	view, err := client.View(ctx)
	if err != nil && len(view.Members) == 0 {
		return err
	}
	view = o.quota.fill(ctx, client, view)
	o.Content = o.Content && view.VotersKnown() // else nobody can be read from, as unreadable says
	report, lookErr := ops.Quota(ctx, client, view, o.QuotaOptions, app.Progress())
	if lookErr != nil && ctx.Err() == nil && len(view.Answered()) > 0 && fault.KindOf(lookErr) == fault.Unavailable {
		lookErr = &fault.Error{Kind: fault.Partial, Cause: "content_unreadable", Err: lookErr, Hint: fault.HintOf(lookErr)}
	}
	return errors.Join(err, app.Print(report, quotaTable(report, o)), lookErr, unreadable(view), o.judge(view))
}

// judge is what --exit-code adds.
func (o quotaOptions) judge(v cluster.View) error {
	if !o.exitCode {
		return nil
	}
	full := ""
	for _, m := range v.Answered() {
		if u, ok := m.Status.UsageRatio(); ok && u >= o.WarnAt {
			full = fmt.Sprintf("%s uses %.1f %% of its quota", m.Label(), 100*u)
		}
	}
	switch {
	case v.HasAlarm(cluster.AlarmNoSpace):
		return &fault.Error{Kind: fault.Wanting, Cause: cluster.CauseNoSpace, Op: "quota", Msg: "a NOSPACE alarm is raised", Hint: "kvd alarm recover"}
	case full != "":
		return &fault.Error{Kind: fault.Wanting, Cause: "nearly_full", Op: "quota", Msg: render.Safe(full)}
	}
	return nil
}
