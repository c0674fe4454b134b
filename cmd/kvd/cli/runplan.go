package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
)

// planFlags are shared by every command that changes something.
type planFlags struct {
	DryRun bool
	Yes    bool
	Report string
}

func (f *planFlags) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&f.DryRun, "dry-run", false, "show the plan that would be run, and run nothing")
	fs.BoolVarP(&f.Yes, "yes", "y", false, "run the plan without asking")
	fs.StringVar(&f.Report, "report", "", "append the report to this file, as one line of JSON")
}

// onCluster connects, looks, has a plan made of what is seen, and runs it.
func (a *App) onCluster(ctx context.Context, c clientFlags, f planFlags, makePlan func(*cluster.Client, cluster.View) (*plan.Plan, error)) error {
	return a.look(ctx, c, func(client *cluster.Client, view cluster.View) error {
		if err := view.OneCluster(""); err != nil {
			return err
		}
		p, err := makePlan(client, view)
		if err != nil {
			return err
		}
		// Which cluster this is about is what the user consents to.
		return a.runPlan(ctx, p, whereIs(client), f)
	})
}

// runPlan shows a plan, asks, runs it and prints the report, also after a
// failure half-way.
func (a *App) runPlan(ctx context.Context, p *plan.Plan, source string, f planFlags) error {
	shown := p.Describe()
	shown.Source = source
	if f.DryRun {
		return errors.Join(p.Check(ctx), a.printReport(shown))
	}
	if !p.Pending() {
		return a.printReport(shown)
	}
	out, err := openReport(f.Report)
	if err != nil {
		return err
	}
	_ = drawReport(a.IO.Err, shown) // a reader who left has seen enough
	// A refusal is said before anybody is asked, while nothing has happened.
	err = p.Check(ctx)
	if err == nil {
		err = a.confirm(ctx, f.Yes, "run this plan?")
	}
	if err != nil {
		out.discard()
		return err
	}
	report, err := p.Run(ctx, a.interrupts.goGentle(nil), a.Progress())
	report.Source = source
	return errors.Join(err, a.printReport(report), out.append(report, fault.KindOf(err)))
}

func (a *App) printReport(r plan.Report) error {
	return a.Print(r, func(w io.Writer) error { return drawReport(w, r) })
}

// drawReport draws a plan or a report.
func drawReport(w io.Writer, r plan.Report) error {
	if r.Source != "" {
		fmt.Fprintf(w, "cluster: %s\n", render.Safe(r.Source))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", render.Safe(n))
	}
	if err := reportColumns().Write(w, r.Steps); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", r.Op, r.Outcome)
	return err
}

func reportColumns() render.Columns[plan.StepResult] {
	return render.Columns[plan.StepResult]{
		{Header: "subject", Value: func(s plan.StepResult) string { return s.Subject }},
		{Header: "action", Value: func(s plan.StepResult) string { return s.Action }},
		{Header: "state", Value: func(s plan.StepResult) string { return string(s.State) }},
		{Header: "before", Right: true, Value: func(s plan.StepResult) string { return bytesOrDash(s.BeforeBytes) }},
		{Header: "after", Right: true, Value: func(s plan.StepResult) string { return bytesOrDash(s.AfterBytes) }},
		{Header: "took", Right: true, Value: func(s plan.StepResult) string { return seconds(s.TookSeconds) }},
		{Header: "reason", Wrap: 60, Value: func(s plan.StepResult) string { return s.Reason }},
	}
}
