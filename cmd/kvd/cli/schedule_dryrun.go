package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/daemon"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/schedule"
)

// dryRuns is how many run times --dry-run shows.
const dryRuns = 5

// scheduleShown is what --schedule … --dry-run prints.
type scheduleShown struct {
	Schedule string       `json:"schedule"`
	Timezone string       `json:"timezone"`
	Window   string       `json:"window,omitempty"`
	Jitter   float64      `json:"jitter_seconds"`
	NextRuns []time.Time  `json:"next_runs"`
	Latest   []time.Time  `json:"next_runs_latest,omitempty"` // with jitter: when each begins at the latest
	Plan     *plan.Report `json:"plan,omitempty"`             // none where the cluster can't be asked
}

// showSchedule says when the next runs are, for which no cluster is needed.
func showSchedule(sched *schedule.Schedule, now time.Time) scheduleShown {
	o := sched.Options()
	shown := scheduleShown{Schedule: o.Expr, Timezone: sched.Zone(), Window: o.Window, Jitter: o.Jitter.Seconds(), NextRuns: sched.Runs(now, dryRuns)}
	if o.Jitter > 0 {
		for _, t := range shown.NextRuns {
			shown.Latest = append(shown.Latest, sched.Latest(t))
		}
	}
	return shown
}

func (a *App) dryRunScheduled(ctx context.Context, client *cluster.Client, sched *schedule.Schedule, s scheduled) error {
	shown := showSchedule(sched, time.Now())
	p, err := a.planScheduled(ctx, client, s)
	if fault.KindOf(err) == fault.Usage {
		return err
	}
	if err == nil {
		described := p.Describe()
		described.Source = whereIs(client)
		shown.Plan = &described
		err = p.Check(ctx)
	}
	return errors.Join(err, a.Print(shown, func(w io.Writer) error { return shown.draw(w, sched) }))
}

func (a *App) planScheduled(ctx context.Context, client *cluster.Client, s scheduled) (*plan.Plan, error) {
	if s.before != nil {
		if err := s.before(client, a.Progress(), &daemon.Options{}); err != nil {
			return nil, err
		}
	}
	view, err := client.View(ctx)
	if err != nil {
		return nil, err
	}
	if err := view.OneCluster(""); err != nil {
		return nil, err
	}
	return s.makePlan(ctx, client, view, a.Progress())
}

func (s scheduleShown) draw(w io.Writer, sched *schedule.Schedule) error {
	fmt.Fprintf(w, "schedule: %s\n", sched)
	for i, t := range s.NextRuns {
		fmt.Fprintf(w, "run at: %s", t.Format("Mon 2006-01-02 15:04:05 -0700 MST"))
		if s.Latest != nil {
			fmt.Fprintf(w, ", or up to %s later", s.Latest[i].Sub(t).Round(time.Second))
		}
		fmt.Fprintln(w)
	}
	if s.Plan == nil {
		return nil
	}
	fmt.Fprintln(w, "plan as of now; a fresh one is made at each run:")
	return drawReport(w, *s.Plan)
}
