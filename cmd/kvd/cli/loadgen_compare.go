package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/fault"
)

// loadgenCompareOptions are the flags of kvd loadgen compare.
type loadgenCompareOptions struct{ html string }

func newLoadgenCompareCmd(app *App, run func(context.Context, *App, loadgenCompareOptions, []string) error) *cobra.Command {
	var o loadgenCompareOptions
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "Set two loads against each other: ratios with intervals",
		Args:  cobra.RangeArgs(1, 2),
		RunE:  func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), app, o, args) },
	}
	cmd.Flags().StringVar(&o.html, "html", "", "write a page with both runs' charts to this `file`")
	return help{
		Long: `
Compares what kvd loadgen wrote with --out. For each figure it gives how many times
as much B is as A, with an interval that contains the true ratio in 95 of 100
comparisons, and a verdict. Where the interval contains 1, no difference is
shown, however large the ratio looks.

Each of A and B is a file, several separated by commas, or a pattern in quotes. A
alone is what --ab has written: both variants are in it.
With two or more runs of each, runs are what is compared (Welch's interval on
logarithms). With one run each, both are cut into batches of some seconds: that
sees what varies within a run, and not what varies from run to run, which is
often more.

Both are to be of one scenario, with and without a change. Runs of different
scenarios are said to be that, with what only one of them sends.

With some twenty figures, one of them shows a difference by chance in most
comparisons of two equals: look at the size of it, and at those you asked about.`,
		Cost: "Nothing: it reads files.",
		Example: `
  kvd loadgen compare status.jsonl lease.jsonl
  kvd loadgen compare 'a-*.jsonl' 'b-*.jsonl' -o json | jq '.figures[] | select(.verdict != "no difference shown")'
  kvd loadgen compare ab.jsonl
  kvd loadgen compare before.jsonl after.jsonl --html compare.html`,
		Exits: []int{9},
	}.apply(cmd)
}

func runLoadgenCompare(_ context.Context, app *App, o loadgenCompareOptions, args []string) error {
	files, err := openLoadFiles("", o.html)
	if err != nil {
		return err
	}
	runsA, err := readRuns(strings.Split(args[0], ","))
	if err != nil {
		return err
	}
	if len(args) == 1 {
		a, b, err := result.Variants(runsA)
		if err != nil {
			return err
		}
		return app.compareLoads(a, b, files)
	}
	runsB, err := readRuns(strings.Split(args[1], ","))
	if err != nil {
		return err
	}
	return app.compareLoads(runsA, runsB, files)
}

// compareLoads prints a comparison, and writes a page about it.
func (a *App) compareLoads(runsA, runsB []*result.Run, files loadFiles) error {
	c, err := result.Compare(runsA, runsB)
	if err != nil {
		return err
	}
	err = errors.Join(a.Print(c, func(w io.Writer) error { return drawComparison(w, c) }), files.writeComparison(c, runsA[0], runsB[0]))
	if err == nil && !c.Differs() {
		err = &fault.Error{Kind: fault.Inconclusive, Cause: "no_difference", Op: "compare", Msg: "no difference shown in any figure",
			Hint: "longer or more runs narrow the intervals"}
	}
	return err
}

func drawComparison(w io.Writer, c result.Comparison) error {
	fmt.Fprintf(w, "A: %s\nB: %s\n%s\n", render.Safe(c.A), render.Safe(c.B), c.Basis)
	for _, n := range c.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	type row = result.Figure
	return render.Columns[row]{
		{Header: "figure", Value: func(f row) string { return f.Name }},
		{Header: "a", Right: true, Value: func(f row) string { return figureText(f.A, f.Unit, f.Verdict == result.OnlyB) }},
		{Header: "b", Right: true, Value: func(f row) string { return figureText(f.B, f.Unit, f.Verdict == result.OnlyA) }},
		{Header: "b/a", Right: true, Value: func(f row) string {
			if f.Ratio == nil {
				return "-"
			}
			return fmt.Sprintf("%.3g", f.Ratio.Value)
		}},
		{Header: "95 % interval", Value: func(f row) string {
			if f.Ratio == nil {
				return "-"
			}
			return fmt.Sprintf("%.3g to %.3g", f.Ratio.Low, f.Ratio.High)
		}},
		{Header: "verdict", Value: func(f row) string { return f.Verdict }},
	}.Write(w, c.Figures)
}

func figureText(v float64, unit string, none bool) string {
	if none {
		return "-"
	}
	switch unit {
	case result.UnitSeconds:
		return latencyText(v)
	case result.UnitBytes:
		return sizeText(int64(v)) + "/s"
	case result.UnitSize:
		return sizeText(int64(v))
	}
	return fmt.Sprintf("%.3g", v)
}
