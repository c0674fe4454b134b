package cli

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// watchQuota prints a line per interval, until it is interrupted. A moment in
// which nobody answers is told on stderr, and does not end it.
func watchQuota(ctx context.Context, app *App, client *cluster.Client, o quotaOptions) error {
	if app.Global.Output == render.YAML {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "quota", Msg: "--watch is a stream: -o table or -o json (JSON Lines)"}
	}
	if app.Global.Output == render.Table {
		fmt.Fprintf(app.IO.Out, watchLine, "TIME", "MEMBER", "DB SIZE", "IN USE", "USED", "SIZE/S", "IN USE/S", "REV/S", "FULL IN", "ALARMS")
	}
	tick := time.NewTicker(o.watch)
	defer tick.Stop()
	var growth ops.Growth
	var known cluster.View // what members do not tell each time is asked for once
	for looked := false; ; looked = true {
		view, err := client.View(ctx)
		known = o.quota.fill(ctx, client, view.QuotasLike(known))
		sample, ok := growth.Add(known)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !ok && !looked:
			return err
		case !ok:
			app.warn("nobody answers: %v", err)
		default:
			if err := printSample(app, sample); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const watchLine = "%-19s  %-12s  %10s  %10s  %7s  %12s  %12s  %9s  %10s  %s\n"

func printSample(app *App, s ops.GrowthSample) error {
	if app.Global.Output == render.JSON {
		return render.NewEncoder(app.IO.Out).Encode(s)
	}
	alarms := orDash(strings.Join(s.Alarms, ","))
	if len(s.Silent) > 0 {
		alarms += fmt.Sprintf(" (without an answer: %s)", count(len(s.Silent), "member"))
	}
	_, err := fmt.Fprintf(app.IO.Out, watchLine, s.At.Format(time.DateTime), render.Safe(s.Member), sizeText(s.DBSize), sizeText(s.DBInUse),
		ratioOrDash(s.Usage), rateText(s.SizeRate), rateText(s.InUseRate), numberText(s.RevisionRate), untilText(s.FullIn), alarms)
	return err
}

func rateText(r *float64) string {
	if r == nil {
		return "-"
	}
	return sizeText(int64(*r)) + "/s"
}

func numberText(r *float64) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", *r)
}

// untilText shows a time in the future as coarsely as it is known.
func untilText(seconds *float64) string {
	switch {
	case seconds == nil:
		return "-"
	case *seconds > 365*24*3600:
		return "> 1 year"
	case *seconds > 2*24*3600:
		return fmt.Sprintf("%.0f days", *seconds/86400)
	}
	unit := time.Minute
	if *seconds < 600 {
		unit = time.Second
	}
	return time.Duration(math.Min(*seconds, 1e9) * float64(time.Second)).Round(unit).String()
}
