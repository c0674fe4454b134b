package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/fault"
)

// loadgenReportOptions are the flags of kvd loadgen report.
type loadgenReportOptions struct {
	slo    []string
	html   string
	charts bool
}

func (o *loadgenReportOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.slo, "slo", nil, "`objectives` to judge by, as in a run")
	fs.StringVar(&o.html, "html", "", "write a page with charts to this `file`")
	fs.BoolVar(&o.charts, "charts", false, "with -o json: the lines of the page's charts as well")
}

func newLoadgenReportCmd(app *App, run func(context.Context, *App, loadgenReportOptions, []string) error) *cobra.Command {
	var o loadgenReportOptions
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Show results that were kept, those of several generators as one",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), app, o, args) },
	}
	o.addFlags(cmd.Flags())
	return help{
		Long: `
Shows what kvd loadgen wrote with --out. Results of several generators that loaded
one cluster at the same time are added up: histograms are, so that percentiles
are those of all requests. A pattern in quotes stands for all files that fit it.`,
		Cost: "Nothing: it reads files.",
		Example: `
  kvd loadgen report run.jsonl
  kvd loadgen report run.jsonl --html run.html
  kvd loadgen report one.jsonl two.jsonl --slo 'txn:p99<50ms'
  kvd loadgen report run.jsonl -o json --charts | jq '.charts[0].lines[].max'`,
		Exits: []int{3, 4, 9},
	}.apply(cmd)
}

func runLoadgenReport(_ context.Context, app *App, o loadgenReportOptions, args []string) error {
	objectives, err := objectivesOf(o.slo)
	if err != nil {
		return err
	}
	files, err := openLoadFiles("", o.html)
	if err != nil {
		return err
	}
	runs, err := readRuns(args)
	if err != nil {
		return err
	}
	merged, err := result.Merge(runs)
	if err != nil {
		return err
	}
	if missing := result.MissingParts(runs); len(missing) > 0 {
		app.warn("this is not all of the load: part %s is missing", strings.Join(missing, ", "))
	}
	if err := merged.CheckObjectives(objectives); err != nil {
		return err
	}
	judged := result.Judge(merged, objectives)
	return errors.Join(result.Err(merged, judged), app.printLoad(result.NewReport(merged, judged, o.charts)),
		files.write([]*result.Run{merged}, judged))
}

// readRuns reads all runs of some files, which may be given as patterns.
func readRuns(patterns []string) ([]*result.Run, error) {
	var runs []*result.Run
	for _, p := range patterns {
		paths, err := filepath.Glob(p)
		if err != nil || len(paths) == 0 {
			paths = []string{p} // a name with a bracket in it, or one that is not there
		}
		for _, path := range paths {
			f, err := os.Open(path)
			if err != nil {
				return nil, &fault.Error{Kind: fault.Usage, Cause: "file_open", Op: "read result", Err: err}
			}
			more, err := result.Read(f, path)
			_ = f.Close() // it was read
			if err != nil {
				return nil, err
			}
			runs = append(runs, more...)
		}
	}
	return runs, nil
}
