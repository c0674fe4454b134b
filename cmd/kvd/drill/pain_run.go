package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/wait"
)

// compaction is kube-apiserver's, and the default of kvd loadgen.
const compaction = 5 * time.Minute

// run starts a cluster, which becomes the stage, puts a load on it, and has kvd
// diagnose look meanwhile.
func (s *painDrill) run(ctx context.Context, v Variant) (PainRun, *Said, error) {
	out := PainRun{What: v.What, Command: fmt.Sprintf("%s --seed %d --warmup %s --duration %s", v.Command, s.o.Seed, s.o.Warmup, s.o.Duration)}
	began := time.Now()
	var err error
	if s.stage, err = newStage(ctx, setting{members: s.o.Members, keep: s.o.Keep, dir: s.o.Dir, command: s.o.Command, quota: s.o.QuotaBytes, args: s.p.Args}, s.sink); err != nil {
		return out, nil, err
	}
	out.StartSeconds, out.Endpoints, out.Dir = time.Since(began).Seconds(), s.cluster.Endpoints(), s.root

	if out.Stall, err = s.chooseVictim(ctx); err != nil {
		return out, nil, err
	}
	if v.Moved {
		if out.Moved, err = s.moveAway(ctx); err != nil {
			return out, nil, err
		}
	}
	opts := loadgen.DefaultOptions()
	opts.Seed, opts.Duration, opts.Warmup, opts.MetricsURLs = s.o.Seed, s.o.Duration, s.o.Warmup, metrics.Overrides{}
	for i := range s.cluster.Len() {
		opts.MetricsURLs[s.cluster.Name(i)] = s.cluster.MetricsURL(i)
	}
	if v.Tune != nil {
		v.Tune(&opts)
	}
	look := s.newLook(ctx)
	beside := []func(context.Context){
		func(load context.Context) {
			if wait.For(load, s.o.Warmup) == nil {
				out.Gauges = s.gauges(load, s.p.Gauges)
			}
		},
	}
	if st := out.Stall; st != nil {
		opts.Avoid = []string{st.Member}
		out.Command += " --avoid " + st.Member
		beside = append(beside, func(load context.Context) { s.stall(load, st) })
	}
	run, err := loadgen.Run(ctx, s.client, &watched{k8s.WithCompaction(v.Scenario(), compaction), look, beside}, opts, nil, s.sink)
	if run != nil {
		out.Load, out.Waits = result.NewReport(run, nil, false), waitsOf(run)
	}
	gone := s.cluster.Outlived("drill " + s.p.Name)
	if err != nil && gone != nil && ctx.Err() == nil {
		err = gone // which is why, however far the load had come
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return out, nil, err // it may look on
	}
	return out, look.said, errors.Join(gone, unfit(s.p.Name, out.Load))
}

// unfit is the error of a load that was not offered whole. One that was offered late,
// on a machine that is busy, has the same amounts, and latencies that say nothing.
func unfit(drill string, r result.Report) error {
	e := &fault.Error{Kind: fault.Inconclusive, Op: "drill " + drill, Hint: "ask for less load, on a machine that is less busy"}
	switch {
	case r.Stopped != "":
		e.Cause, e.Msg = r.Stopped, "the load ended before its time: "+r.Stopped
	case r.Offered.Dropped > 0:
		e.Cause, e.Msg = "generator_limit", fmt.Sprintf("%d of %d turns were left out, for too many were waiting", r.Offered.Dropped, r.Offered.Due)
	default:
		return nil
	}
	return e
}
