package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/diagnose"
)

// diagnoseOptions are the flags of kvd diagnose.
type diagnoseOptions struct {
	diagnose.CollectOptions
	diagnoseFiles
	client    clientFlags
	sample    byteSize
	kube      kubePrefix
	set       []string
	backupAge time.Duration
	failOn    string
	strict    bool
	markdown  bool
	explain   bool
	alerts    bool
	timeout   time.Duration
	kvd       *cobra.Command // the tree, which knows what commands can be told
}

func (o *diagnoseOptions) addFlags(fs *pflag.FlagSet) {
	o.CollectOptions = diagnose.DefaultCollectOptions()
	o.sample = byteSize(o.SampleBytes)
	o.client.addFlags(fs)
	o.diagnoseFiles.addFlags(fs)
	fs.DurationVar(&o.Interval, "interval", o.Interval, "time between the two samples; 0 takes one, which says nothing of what is going on")
	fs.StringArrayVar(&o.MetricsURLs, "metrics-url", nil, "`NAME=URL` of a member that serves its metrics elsewhere than at its client URL")
	fs.Var(&o.sample, "sample", "read at most this much of what is stored, from one follower (0: nothing)")
	o.kube.addFlags(fs)
	fs.BoolVar(&o.Hash, "hash", false, "compare what the members hold by HashKV, one member after the other: each answers nobody else meanwhile")
	fs.DurationVar(&o.backupAge, "max-backup-age", 0, "how old the newest of --backups may be (default 24h)")
	fs.StringArrayVar(&o.set, "set", nil, "change a limit: `NAME=VALUE`, see --explain")
	fs.StringVar(&o.failOn, "fail-on", string(diagnose.Warning), "from which severity on the exit code is 3: warning, critical or none")
	fs.BoolVar(&o.strict, "strict", false, "exit 9 where something that was asked for could not be looked at")
	fs.BoolVar(&o.markdown, "markdown", false, "write Markdown, for a ticket")
	fs.BoolVar(&o.explain, "explain", false, "print the limits and where they are from; nothing is sent")
	fs.BoolVar(&o.alerts, "alerts", false, "print rules for Prometheus that fire at the limits; nothing is sent")
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long all of it may take beside the interval")
}

func newDiagnoseCmd(app *App, run func(context.Context, *App, diagnoseOptions) error) *cobra.Command {
	var o diagnoseOptions
	cmd := &cobra.Command{
		Use:   "diagnose",
		Short: "What is wrong, how that is known, how bad it is, and what to type next",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.check(), o.checkFormat(app), o.setLimits(app)); err != nil {
				return err
			}
			o.kvd = cmd.Root()
			return run(cmd.Context(), app, o)
		},
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Looks at a cluster twice, compares, and says what is wrong: each finding with its
severity, the numbers that it rests on and where they are from, why it matters,
the commands that remedy it, and a page (docs/findings). Counters are compared
between the samples; what a process has counted since it started says nothing of
now. A finding that follows from another says so. What could not be looked at is
listed as that. Of a healthy cluster it says what was checked and found good.

  critical  writes are refused, data is at risk, or a member does not start
  warning   it will be so, or one failure more makes it so
  info      worth knowing, nothing to get up for`,
		Cost: `Twice: one Status, one serializable member list and one /metrics per member. Once: from one follower, the names of keys
  and a sample of values, --sample (16 MiB) at most, and the latest 5000 changes by a watch; from the leader, the list of leases and up
  to 64 of them; to an endpoint that may be a balancer's 3 to 8 more connections. No request needs the quorum, but for users and roles
  where some are set up, which root alone may read, one login at each voter where there is a --user, and one read of no key where too few
  voters answer. --hash makes each member in turn answer nobody else for about a second per 100 MiB; how long is said before.`,
		Example: `
  kvd diagnose
  kvd diagnose --interval 1m --fail-on critical     # a longer look, in a probe
  kvd diagnose --metrics-url cp-1=http://127.0.0.1:2381     # kubeadm's etcd
  kvd diagnose --hash                               # do all members hold the same?
  kvd diagnose --backups /var/backups/etcd --max-backup-age 12h
  kvd diagnose --target 3.8 --manifest /etc/kubernetes/manifests/etcd.yaml
  kvd diagnose --data-dir /a --data-dir /b --data-dir /c    # nothing runs: which is newest, which starts
  kvd diagnose --metrics then.txt --metrics now.txt --disk /var/lib/etcd
  kvd diagnose --explain                            # the limits, and where they are from
  kvd diagnose --alerts > rules.yaml                # for Prometheus, with the limits of the config file
  kvd diagnose -o json | jq -r '.findings[] | .id + " " + .subject'`,
		Exits: []int{3, 4, 6, 8, 9},
	}.apply(cmd)
}

func runDiagnose(ctx context.Context, app *App, o diagnoseOptions) error {
	if o.explain {
		return app.Print(o.Limits.Table(), limitsTable(o.Limits))
	}
	if o.alerts {
		rules := diagnose.Alerts(o.Limits)
		return app.Print(rules, alertRules(rules))
	}
	if o.offline() {
		return runOffline(ctx, app, o)
	}
	in, err := o.collect(ctx, app)
	switch {
	case err == nil:
		return o.conclude(ctx, app, in)
	case o.alone(err):
		return runAlone(ctx, app, o, err)
	}
	return app.whenNothingRuns(err)
}

// collect asks the cluster.
func (o diagnoseOptions) collect(ctx context.Context, app *App) (*diagnose.Input, error) {
	client, err := app.connect(o.client)
	if err != nil {
		return nil, err
	}
	defer client.Close() //nolint:errcheck // nothing was written
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout+o.Interval, o.tooLong())
	defer cancel()
	in, err := diagnose.Collect(ctx, client, o.CollectOptions, app.Progress())
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, context.Cause(ctx)
	}
	return in, err
}

// conclude adds what files say, prints the report, and returns what the exit code
// says of it.
func (o diagnoseOptions) conclude(ctx context.Context, app *App, in *diagnose.Input) error {
	if err := o.read(ctx, app, in); err != nil {
		return err
	}
	r := diagnose.Diagnose(in)
	o.repeatConnection(r)
	table := diagnosisTable(r)
	if o.markdown {
		table = diagnosisMarkdown(r)
	}
	return errors.Join(app.Print(r, table), o.judge(r))
}
