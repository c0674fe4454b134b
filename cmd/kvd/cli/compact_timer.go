package cli

import (
	"context"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/daemon"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// runCompactScheduled is kvd compact --schedule. Where a time is to be kept it
// samples revisions beside the loop, and also while another kvd leads: who takes
// over must know as much.
func runCompactScheduled(ctx context.Context, app *App, o compactOptions) error {
	o.Watch = &ops.CompactWatch{}
	return app.runScheduled(ctx, scheduled{
		op: "compact", flags: o.timer, client: o.client, plan: o.plan,
		makePlan: func(ctx context.Context, client *cluster.Client, view cluster.View, sink progress.Sink) (*plan.Plan, error) {
			return ops.PlanCompact(ctx, client, view, o.CompactOptions, sink)
		},
		before: func(client *cluster.Client, sink progress.Sink, d *daemon.Options) error {
			if o.Goal.For <= 0 {
				return nil
			}
			s, err := ops.NewRevisionSampler(client, o.Goal.For, o.state, !o.plan.DryRun, sink)
			if err != nil {
				return err
			}
			o.Known, d.Background = s.Before, s.Run
			d.Gauges = sampleGauges(s)
			if err := s.Sample(ctx); fault.KindOf(err) != fault.Unavailable {
				return err
			}
			return nil // it comes with time
		},
	})
}

// sampleGauges are the metrics of what --keep-duration rests on.
func sampleGauges(s *ops.RevisionSampler) []daemon.Gauge {
	stamp := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixMilli()) / 1000
	}
	return []daemon.Gauge{{
		Name: "known_history_seconds", Help: "For how long back it is known which revision the cluster was at (--keep-duration).",
		Value: func() float64 { return s.Before(time.Now()).Spans.Seconds() },
	}, {
		Name: "last_sample_timestamp_seconds", Help: "When the revision was last sampled (--keep-duration). 0: not yet.",
		Value: func() float64 { sampled, _ := s.Times(); return stamp(sampled) },
	}, {
		Name: "samples_saved_timestamp_seconds", Help: "When the samples were last written to --state-dir. 0: not yet, or there is none.",
		Value: func() float64 { _, saved := s.Times(); return stamp(saved) },
	}}
}
