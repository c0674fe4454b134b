package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
)

// scenarioFlags are the knobs of a scenario.
type scenarioFlags interface {
	addFlags(*pflag.FlagSet)
	// scenario makes a fresh one. It may change what does not suit it in the
	// options of the run, as far as changed says that nobody has asked for it.
	scenario(o *loadgen.Options, changed func(flag string) bool) loadgen.Scenario
}

// loadOptions are the flags that all scenarios have.
type loadOptions struct {
	loadgen.Options
	client     clientFlags
	metricsURL []string
	compaction time.Duration
	slo        []string
	startAt    string
	goOn       bool
	out, html  string
	ab         abFlags
	knobs      scenarioFlags
	fs         *pflag.FlagSet
}

func (o *loadOptions) addFlags(fs *pflag.FlagSet) {
	o.Options, o.fs = loadgen.DefaultOptions(), fs
	o.client.addFlags(fs)
	fs.StringVar(&o.Prefix, "prefix", o.Prefix, "write under this, in place of /registry")
	fs.Uint64Var(&o.Seed, "seed", o.Seed, "what all that is random follows from: the same seed, the same schedule")
	fs.DurationVar(&o.Duration, "duration", o.Duration, "how long to measure (0: until Ctrl-C)")
	fs.DurationVar(&o.Warmup, "warmup", o.Warmup, "how long to load before that, not counted")
	fs.Float64Var(&o.TimeScale, "time-scale", o.TimeScale, "divide all periods, TTLs and the compaction interval by this")
	fs.Var(&o.Values, "value-mode", "what the bytes of values are, of the same sizes: k8s, encrypted (as with encryption at rest) or random; only what compresses them sees a difference")
	fs.Var(&o.Arrival, "arrival", "what decides when an actor acts: open (its schedule alone), or kubelet (kubelets wait for their answer and then for their period)")
	fs.DurationVar(&o.Ramp, "ramp", 0, "begin the actors one after the other over this part of --warmup")
	fs.Var(&o.Shard, "shard", "play only a part of the load, that of every n-th API server: 2/4 is the second of four generators of one seed")
	fs.StringVar(&o.startAt, "start-at", "", "begin at this `time`, as in 2026-11-30T10:00:00Z, so that several generators begin together")
	fs.IntVar(&o.APIServers, "apiservers", o.APIServers, "API servers, each with connections of its own")
	fs.IntVar(&o.Resources, "resources", o.Resources, "connections of each API server; those the scenario has no use for stand idle (Kubernetes has some 75)")
	fs.Var(&o.Policy, "endpoints-policy", "to which members they connect: spread (each API server to one, in turn), leader or followers")
	fs.StringSliceVar(&o.Avoid, "avoid", nil, "names of members that they don't connect to")
	fs.DurationVar(&o.compaction, "compaction", 5*time.Minute, "how often the API servers compact, as Kubernetes does (0: never)")
	fs.IntVar(&o.MaxInFlight, "max-in-flight", o.MaxInFlight, "turns that may wait or be under way; what is due beyond is left out, and counted")
	fs.DurationVar(&o.RequestTimeout, "request-timeout", o.RequestTimeout, "how long an answer is waited for")
	fs.DurationVar(&o.Limits.Lag, "max-lag", o.Limits.Lag, "the result is the generator's own if 1 turn in 100 begins later than this after it is due, and that is a quarter of the response time (0: however late)")
	fs.Float64Var(&o.StopAtUsage, "stop-at-usage", o.StopAtUsage, "end at this share of the quota (0: at none)")
	fs.BoolVar(&o.goOn, "past-nospace", false, "go on when the quota is reached: what is refused then is counted apart")
	fs.BoolVar(&o.TargetIsMine, "target-is-mine", false, "load a cluster that is not on this machine")
	fs.BoolVar(&o.BesideKubernetes, "beside-kubernetes", false, "load a cluster in which Kubernetes' objects are")
	fs.StringArrayVar(&o.slo, "slo", nil, "`objectives` to be judged by: 'txn:p99<50ms,range pods:p99<1s,errors<0.1%,late_heartbeats==0'")
	fs.StringVar(&o.out, "out", "", "when the run has ended, write the result, a row for each second, to this `file` as JSON Lines")
	fs.StringVar(&o.html, "html", "", "write a page with charts to this `file`")
	fs.StringArrayVar(&o.metricsURL, "metrics-url", nil, "`NAME=URL` of a member that serves its metrics elsewhere than at its client URL")
	o.ab.addFlags(fs)
	o.knobs.addFlags(fs)
}

// prepare finds what is wrong with the command line, and makes the scenario.
func (o *loadOptions) prepare() (loadgen.Scenario, []result.Objective, error) {
	if err := checkBounds(o.fs); err != nil {
		return nil, nil, err
	}
	objectives, err := objectivesOf(o.slo)
	if err != nil {
		return nil, nil, err
	}
	if o.MetricsURLs, err = metrics.ParseOverrides(o.metricsURL); err != nil {
		return nil, nil, err
	}
	if o.startAt != "" {
		if o.StartAt, err = time.Parse(time.RFC3339, o.startAt); err != nil {
			return nil, nil, &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "--start-at", Subject: o.startAt, Msg: "is no time: want one like 2026-11-30T10:00:00Z"}
		}
	}
	o.StopAtNoSpace = !o.goOn
	s := o.knobs.scenario(&o.Options, o.fs.Changed)
	if c, ok := s.(interface{ Check() error }); ok {
		err = c.Check()
	}
	s = k8s.WithCompaction(s, o.compaction)
	return s, objectives, errors.Join(err, s.Figures().Check(objectives), o.Check())
}

func runLoad(ctx context.Context, app *App, o *loadOptions) error {
	s, objectives, err := o.prepare()
	if err != nil {
		return err
	}
	for _, why := range s.Figures().Doubtful(objectives) {
		app.warn("--slo %s", why)
	}
	files, err := openLoadFiles(o.out, o.html)
	if err != nil {
		return err
	}
	client, err := app.connect(o.client)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // what there was to say was said
	run, err := playLoad(ctx, app, client, s, o.Options)
	if run == nil {
		return err
	}
	judged := result.Judge(run, objectives)
	return errors.Join(err, stoppedErr(run), result.Err(run, judged),
		app.printLoad(result.NewReport(run, judged, false)), files.write([]*result.Run{run}, judged))
}

// playLoad runs a scenario; the first Ctrl-C ends it with a report.
func playLoad(ctx context.Context, app *App, client *cluster.Client, s loadgen.Scenario, o loadgen.Options) (*result.Run, error) {
	stop := app.interrupts.goGentle(func() { app.warn("%s", "stopping: waiting for the last answers (once more: leave at once)") })
	run, err := loadgen.Run(ctx, client, s, o, stop, app.Progress())
	if run != nil {
		run.Kvd = version
	}
	return run, err
}

// stoppedErr is what the early end of a run means.
func stoppedErr(r *result.Run) error {
	e := &fault.Error{Kind: fault.Partial, Cause: r.Totals.Stopped, Op: "loadgen", Hint: "`kvd loadgen clean` removes what was written"}
	switch r.Totals.Stopped {
	case result.StoppedFull:
		if r.Params["until_nospace"] == true {
			return nil // that was what it was to do
		}
		e.Msg = "the quota was reached: the cluster takes no more writes"
		e.Hint += "; `kvd alarm recover --dry-run` shows the way out of NOSPACE"
	case result.StoppedAtUsage:
		e.Msg = "stopped before the quota was reached"
		e.Hint += "; --stop-at-usage 0 goes on"
	case result.StoppedByHand:
		return &fault.Error{Kind: fault.Interrupted, Msg: "stopped by hand: the report is of what was measured until then"}
	default:
		return nil // there is nothing to say, or an error has said it
	}
	return e
}
