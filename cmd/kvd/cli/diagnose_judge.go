package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"kvd/cmd/kvd/cli/config"
	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// setLimits changes the limits by the config file's defaults, then by flags.
func (o *diagnoseOptions) setLimits(app *App) error {
	file, err := config.Load(app.Global.ConfigFile, app.Getenv)
	if err != nil {
		return err
	}
	var set []string
	for _, name := range slices.Sorted(maps.Keys(file.Defaults.Limits)) {
		set = append(set, name+"="+file.Defaults.Limits[name])
	}
	if o.backupAge > 0 {
		set = append(set, "backup_age="+o.backupAge.String())
	}
	return o.Limits.Set(append(set, o.set...))
}

// check finds flags that make no sense, before anything is sent.
func (o *diagnoseOptions) check() error {
	usage := func(msg string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "diagnose", Msg: msg}
	}
	switch {
	case o.Interval < 0:
		return usage("--interval can't be negative")
	case o.failOn != string(diagnose.Warning) && o.failOn != string(diagnose.Critical) && o.failOn != "none":
		return usage(fmt.Sprintf("--fail-on %q: want warning, critical or none", o.failOn))
	case o.timeout <= 0 || o.backupAge < 0:
		return usage("--timeout and --max-backup-age want a time above zero")
	}
	o.SampleBytes = int64(o.sample)
	o.Layout = o.kube.in(o.Layout)
	return o.diagnoseFiles.check()
}

// tooLong says that the time for all of it has passed.
func (o diagnoseOptions) tooLong() error {
	return &fault.Error{Kind: fault.Unavailable, Cause: "timeout", Op: "diagnose", Err: context.DeadlineExceeded,
		Msg:  fmt.Sprintf("not done within --timeout %s beside --interval %s, so that there is no verdict", o.timeout, o.Interval),
		Hint: "a longer --timeout; `kvd status` says which members answer; --sample 0 reads nothing of what is stored"}
}

// checkFormat refuses two formats at once.
func (o *diagnoseOptions) checkFormat(app *App) error {
	if o.markdown && app.Global.Output != render.Table {
		return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "diagnose", Msg: fmt.Sprintf("--markdown and -o %s are two formats: choose one", app.Global.Output)}
	}
	return nil
}

// judge turns a report into what the exit code says of it.
func (o diagnoseOptions) judge(r diagnose.Report) error {
	var errs []error
	if bad := r.Worst(diagnose.Severity(o.failOn)); o.failOn != "none" && len(bad) > 0 {
		errs = append(errs, &fault.Error{Kind: fault.Wanting, Cause: bad[0].ID, Op: "diagnose",
			Msg: fmt.Sprintf("%s (%s): %s", bad[0].ID, bad[0].Severity, bad[0].Summary)})
	}
	for _, n := range r.Grouped() {
		switch {
		case n.ByChoice:
		case n.Denied, n.Cause == cluster.CauseVotersUnknown:
			errs = append(errs, &fault.Error{Kind: fault.Partial, Cause: n.Cause, Op: "diagnose", Subject: n.Subject, Msg: n.Why, Hint: n.Hint})
		case o.strict:
			errs = append(errs, &fault.Error{Kind: fault.Inconclusive, Cause: "not_looked", Op: "diagnose", Subject: n.Subject,
				Msg: "could not look (" + n.Check + "): " + n.Why, Hint: n.Hint})
		}
	}
	return errors.Join(errs...)
}
