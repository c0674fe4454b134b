package daemon

import (
	"strings"

	"go.uber.org/zap"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

func (d *daemon) fields(key, value string) []zap.Field {
	return []zap.Field{zap.String("op", d.o.Op), zap.String(key, value)}
}

func (o Options) sink() progress.Sink { return Sink(o.Log) }

// Sink turns a library's events into log lines: what began and ended, and
// warnings. How far a phase has come is for the debug level.
func Sink(log *zap.Logger) progress.Sink {
	return progress.Func(func(e progress.Event) {
		fields := []zap.Field{zap.String("op", e.Op)}
		add := func(key, value string) {
			if value != "" {
				fields = append(fields, zap.String(key, value))
			}
		}
		add("subject", e.Subject)
		add("phase", e.Phase)
		add("state", e.State)
		add("note", e.Note)
		if e.Done > 0 || e.Total > 0 {
			fields = append(fields, zap.Int64("done", e.Done), zap.Int64("total", e.Total), zap.String("unit", e.Unit))
		}
		switch {
		case e.Warning, e.State == string(plan.Failed):
			log.Warn("run", fields...)
		case e.State != "":
			log.Info("run", fields...)
		default:
			log.Debug("run", fields...)
		}
	})
}

// oneLine is an error's text where a line is an entry: joined errors, one for each
// member, come with line breaks.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// failure shows an error: kind, cause, and what to do next.
func failure(err error) []zap.Field {
	out := []zap.Field{zap.String("error", oneLine(err)), zap.String("kind", string(fault.KindOf(err)))}
	if c := fault.CauseOf(err); c != "" {
		out = append(out, zap.String("cause", c))
	}
	if h := fault.HintOf(err); h != "" {
		out = append(out, zap.String("hint", h))
	}
	return out
}

func (d *daemon) logPlan(msg string, r plan.Report) {
	d.o.Log.Info(msg, zap.String("op", r.Op), zap.String("outcome", string(r.Outcome)), zap.Any("steps", r.Steps), zap.Strings("notes", r.Notes))
}

func (d *daemon) logReport(log *zap.Logger, r plan.Report, err error) {
	fields := []zap.Field{zap.String("outcome", string(r.Outcome)), zap.Float64("took_seconds", r.TookSeconds), zap.Any("steps", r.Steps)}
	switch {
	case err == nil:
		log.Info("run ended", fields...)
	case fault.KindOf(err) == fault.Interrupted:
		log.Warn("run interrupted", append(fields, failure(err)...)...)
	case fault.CauseOf(err) == causeWindow:
		log.Warn("run cut short; the next one does the rest", append(fields, failure(err)...)...)
	default:
		log.Error("run failed; the next tick tries again", append(fields, failure(err)...)...)
	}
}
