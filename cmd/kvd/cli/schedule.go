package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/daemon"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/lead"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/schedule"
)

// scheduleFlags turn a command that runs once into one that stays.
type scheduleFlags struct {
	schedule.Options
	listen string
	lead   lead.Options
}

func (f *scheduleFlags) addFlags(fs *pflag.FlagSet) {
	f.lead = lead.DefaultOptions("")
	fs.StringVar(&f.Expr, "schedule", "", "stay, and run at these times: a cron `expression`, or \"@every 5m\"; needs no --yes")
	fs.StringVar(&f.Timezone, "timezone", "", "time zone of the schedule and the window, for example Europe/Berlin (default: this machine's)")
	fs.StringVar(&f.Window, "window", "", "begin no run and no further member outside `FROM-TO`, for example 22:30-04:00")
	fs.DurationVar(&f.Jitter, "jitter", 0, "begin up to this much later than the schedule says, at random")
	fs.StringVar(&f.listen, "metrics-listen", "", "serve /metrics (Prometheus) and /healthz on this `address`, for example 127.0.0.1:9389")
	fs.DurationVar(&f.lead.TTL, "election-ttl", f.lead.TTL, "after so long without a sign of life another kvd takes over")
	fs.DurationVar(&f.lead.BlindMax, "nospace-wait", f.lead.BlindMax, "under NOSPACE and without a lease: wait up to this much, at random, before looking whether anybody else is at it")
}

// check reads the schedule, and refuses flags that mean nothing without one.
func (f *scheduleFlags) check(fs *pflag.FlagSet, more ...string) error {
	bad := func(msg, hint string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Msg: msg, Hint: hint}
	}
	if err := notEmpty(fs, "schedule", "timezone", "window"); err != nil {
		return err
	}
	if !fs.Changed("schedule") {
		for _, name := range append([]string{"timezone", "window", "jitter", "metrics-listen", "election-ttl", "nospace-wait"}, more...) {
			if fs.Changed(name) {
				return bad("--"+name+" means nothing without --schedule", `for example --schedule "30 3 * * *"`)
			}
		}
		return nil
	}
	if f.lead.TTL < 2*time.Second || f.lead.TTL%time.Second != 0 {
		return bad(fmt.Sprintf("--election-ttl %s: want whole seconds, at least 2", f.lead.TTL), "etcd makes shorter leases longer")
	}
	if f.lead.BlindMax < 0 {
		return bad(fmt.Sprintf("--nospace-wait %s is negative", f.lead.BlindMax), "")
	}
	_, err := schedule.Parse(f.Options, time.Now())
	return err
}

// notEmpty refuses flags that were given an empty value. In a unit file that is a
// variable which is not set, and to go on without a rule, a window or a zone is
// not what its author meant.
func notEmpty(fs *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if fs.Changed(name) && saysNothing(fs.Lookup(name).Value) {
			return &fault.Error{Kind: fault.Usage, Cause: "flag", Msg: "--" + name + " is empty",
				Hint: "if it comes from a variable, that is not set; to do without, leave the flag out"}
		}
	}
	return nil
}

// saysNothing reports a value that is blank, or a list in which one is.
func saysNothing(v pflag.Value) bool {
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	if list, ok := v.(pflag.SliceValue); ok {
		values := list.GetSlice()
		return len(values) == 0 || slices.ContainsFunc(values, blank)
	}
	return blank(v.String())
}

func (f *scheduleFlags) on() bool { return f.Expr != "" }

// scheduled is one command left on a timer.
type scheduled struct {
	op     string
	flags  scheduleFlags
	client clientFlags
	plan   planFlags
	urls   []string // --metrics-url

	// makePlan is called for each run; it reports to the sink it is given.
	makePlan func(context.Context, *cluster.Client, cluster.View, progress.Sink) (*plan.Plan, error)
	// before is called once there is a client, and may set what follows.
	before     func(client *cluster.Client, sink progress.Sink, d *daemon.Options) error
	blindPause time.Duration // how long a run pauses between two members
}

// runScheduled runs until it is asked to stop. With --dry-run it shows what it
// would do, and when.
func (a *App) runScheduled(ctx context.Context, s scheduled) error {
	client, err := a.connect(s.client)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // each plan has verified what it did
	sched, err := schedule.Parse(s.flags.Options, time.Now())
	if err != nil {
		return err
	}
	if s.plan.DryRun {
		return a.dryRunScheduled(ctx, client, sched, s)
	}
	out, err := openReport(s.plan.Report)
	if err != nil {
		return err
	}
	defer out.close()
	source := whereIs(client)
	log := a.logger()
	o := daemon.Options{
		Op: s.op, Version: version, Schedule: sched, Client: client, Listen: s.flags.listen, Log: log, Lead: s.flags.lead,
		Plan: func(ctx context.Context, v cluster.View, sink progress.Sink) (*plan.Plan, error) {
			return s.makePlan(ctx, client, v, sink)
		},
		Report: func(r plan.Report) error {
			r.Source = source
			return errors.Join(withoutBrokenPipes(a.printRun(r)), out.write(r))
		},
	}
	o.Lead.Op = s.op
	o.Lead.BlindGap = max(o.Lead.BlindGap, s.blindPause+3*time.Second)
	if o.Lead.Metrics, err = metrics.ParseOverrides(s.urls); err != nil {
		return err
	}
	if s.before != nil {
		if err := s.before(client, daemon.Sink(log), &o); err != nil {
			return err
		}
	}
	return daemon.Serve(ctx, a.interrupts.goGentle(func() { log.Info(stopping, zap.String("op", s.op)) }), o)
}

// printRun prints the report of one run among many: a table, one line of JSON,
// or one document of YAML.
func (a *App) printRun(r plan.Report) error {
	if a.Global.Output == render.JSON {
		return render.NewEncoder(a.IO.Out).Encode(r)
	}
	if a.Global.Output == render.YAML {
		fmt.Fprintln(a.IO.Out, "---")
	}
	return a.printReport(r)
}

// logger is etcd's kind of log, on stderr.
func (a *App) logger() *zap.Logger {
	enc := zapcore.NewJSONEncoder(logutil.DefaultZapLoggerConfig.EncoderConfig)
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(a.IO.Err)), zapcore.InfoLevel))
}

// besideSchedule keeps a command that runs once from running beside a schedule's
// run of the same: each has one member at a time, and together they would have
// two. In an emergency it only warns.
func besideSchedule(client *cluster.Client, view cluster.View, p *plan.Plan) {
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.State == plan.Skipped {
			continue
		}
		inner := s.Guard
		s.Guard = func(ctx context.Context) error {
			h, going := lead.Running(ctx, client, p.Op)
			if going && !view.HasAlarm(cluster.AlarmNoSpace) {
				return &fault.Error{Kind: fault.Refused, Cause: lead.CauseOther, Op: p.Op, Subject: s.Subject, Msg: h.String(),
					Hint: "it runs on a schedule; wait until it is done, or stop it"}
			}
			if inner == nil {
				return nil
			}
			return inner(ctx)
		}
		return // the first that is run; from then on the gate for what is in flight looks
	}
}
