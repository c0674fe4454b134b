package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// statusOptions are the flags of kvd status.
type statusOptions struct {
	client   clientFlags
	quota    quotaFlag
	wait     bool
	timeout  time.Duration
	exitCode bool
}

func (o *statusOptions) addFlags(fs *pflag.FlagSet) {
	o.client.addFlags(fs)
	o.quota.addFlags(fs)
	fs.BoolVar(&o.wait, "wait", false, "wait until every voter answers, there is a leader, no alarm is raised and nobody lags")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "how long --wait waits")
	fs.BoolVar(&o.exitCode, "exit-code", false, "exit 3 where an alarm is raised, there is no leader, or a file is above 80 % of its quota")
}

func newStatusCmd(app *App, run func(context.Context, *App, statusOptions) error) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Members, leader, sizes against quota, lag, alarms",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), app, o) },
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Shows every member of the cluster: its role, version, how large its database is
against its own quota, how far it lags, and the alarms that are raised. Members
that do not answer are shown with the reason why, and what to do about it. Where
the endpoints, or the connections to one of them, lead into two clusters it says
which leads into which, and exits with 6.`,
		Cost: `One Status request per member (answered from memory, no quorum needed) and one serializable member list per endpoint; of a
  member before etcd 3.6 also its /metrics, which alone tell its quota. Where too few voters answer for a quorum and one
  of them knows a leader, a linearizable read of no key, which tells whether the quorum is lost, or only not reached from here.
  An endpoint that is a name, or no address of the member that answers, may be a balancer's: 3 to 8 more connections with one
  Status each tell whether it leads into one cluster.`,
		Example: `
  kvd status
  kvd status --endpoints https://10.0.0.1:2379 --cacert ca.crt --cert client.crt --key client.key
  kvd status -o json | jq '.members[] | select(.usage_ratio > 0.8) | .name'
  kvd status --wait --timeout 2m     # in a script: until the cluster is well
  kvd status --exit-code             # in a probe`,
		Exits: []int{3, 4, 6, 8},
	}.apply(cmd)
}

func runStatus(ctx context.Context, app *App, o statusOptions) error {
	client, err := app.connect(o.client)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing was written
	look := client.View
	if o.wait {
		look = func(ctx context.Context) (cluster.View, error) {
			return ops.WaitHealthy(ctx, client, o.timeout, app.Progress())
		}
	}
	view, err := look(ctx)
	if err != nil && len(view.Members) == 0 {
		return err
	}
	view = o.quota.fill(ctx, client, view)
	if who := o.unjudged(view); who != "" {
		app.warn("--exit-code does not see how full %s is: etcd before 3.6 tells its quota by its metrics only, which cannot be read; say it with --quota", who)
	}
	apart := ops.Apart(ctx, client, view)
	if apart != "" {
		view.Notes = append(view.Notes, apart+": see `kvd diagnose`")
	}
	return errors.Join(err, app.Print(view, statusTable(view)), unreadable(view), o.judge(view, apart))
}

// unjudged names the members of which --exit-code can't tell how full they are.
func (o statusOptions) unjudged(v cluster.View) string {
	var who []string
	for _, m := range v.Answered() {
		if o.exitCode && m.Status.EffectiveQuota() == cluster.QuotaUnknown {
			who = append(who, m.Label())
		}
	}
	return strings.Join(who, ", ")
}

// unreadable is the error for members and endpoints that did not answer, or that are
// another cluster's, and for members that nobody has told of: what could be read is shown all the same.
func unreadable(v cluster.View) error {
	var why []string
	unknown := v.VotersErr("")
	if unknown != nil {
		why = append(why, fault.Why(unknown))
	}
	if n := len(v.Silent()); n > 0 {
		why = append(why, fmt.Sprintf("%d of %d members did not answer", n, len(v.Members)))
	}
	foreign := v.OneCluster("")
	if foreign != nil {
		why = append(why, fault.Why(foreign))
	}
	for _, u := range v.Unreached {
		why = append(why, fmt.Sprintf("endpoint %s: %s", u.Endpoint, fault.CauseOf(u.Err)))
	}
	if len(why) == 0 {
		return nil
	}
	cause, hint := "not_all_answered", ""
	switch {
	case foreign != nil:
		cause, hint = cluster.CauseOtherCluster, fault.HintOf(foreign)
	case unknown != nil:
		cause, hint = cluster.CauseVotersUnknown, fault.HintOf(unknown)
	}
	return &fault.Error{Kind: fault.Partial, Cause: cause, Msg: strings.Join(why, "; "), Hint: hint}
}

// judge is what --exit-code adds.
func (o statusOptions) judge(v cluster.View, apart string) error {
	if !o.exitCode {
		return nil
	}
	if why := cmp.Or(ops.Unwell(v), apart); why != "" {
		return &fault.Error{Kind: fault.Wanting, Cause: "unwell", Msg: why}
	}
	return nil
}
