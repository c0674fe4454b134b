// Package schedule says when something is to be done: cron expressions and
// intervals, a window in the day, jitter, and a loop that calls a function at
// each tick. It knows nothing of etcd. Time comes from a Clock, so that a night
// with daylight saving passes in a test in no time.
package schedule

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	_ "time/tzdata" // images made from scratch have no time zones of their own

	"github.com/robfig/cron/v3"

	"kvd/pkg/ops/fault"
)

// Options are what a schedule is made of, as people write it.
type Options struct {
	Expr     string        // five cron fields, @daily and its like, or "@every 5m"
	Timezone string        // name of a time zone that the fields and the window are in; empty: the machine's
	Window   string        // "01:00-05:00"; empty: the whole day
	Jitter   time.Duration // a run begins up to this much after its tick, at random
}

// Schedule is a sequence of ticks. It is immutable and safe for concurrent use.
type Schedule struct {
	opts   Options
	loc    *time.Location
	ticks  ticker
	window *Window
}

// ticker is what an expression becomes: the first tick after t, or the zero time
// if there is none.
type ticker interface{ after(t time.Time) time.Time }

// shortest is the shortest interval there is. A run looks at every member, so
// that more often would be a load of its own.
const shortest = time.Second

// Parse reads a schedule. Ticks of "@every" are counted from start. What cannot
// be read, and what would never run, is an error of kind Usage.
func Parse(o Options, start time.Time) (*Schedule, error) {
	s := &Schedule{opts: o, loc: time.Local}
	if o.Timezone != "" {
		loc, err := time.LoadLocation(o.Timezone)
		if err != nil {
			return nil, usage("--timezone", fmt.Sprintf("%q is not a time zone", o.Timezone), "give a name such as Europe/Berlin, America/New_York or UTC")
		}
		s.loc = loc
	} else if tz := os.Getenv("TZ"); !readable(tz) {
		return nil, usage("--schedule", fmt.Sprintf("the variable TZ is %q, which is not the name of a time zone: the times would be taken for UTC", tz), "give --timezone, or set TZ to a name such as Europe/Berlin")
	}
	if o.Jitter < 0 {
		return nil, usage("--jitter", fmt.Sprintf("%s is negative", o.Jitter), "")
	}
	var err error
	if s.ticks, err = parseTicks(strings.TrimSpace(o.Expr), s.loc, start.Round(0)); err != nil {
		return nil, err
	}
	if s.window, err = ParseWindow(o.Window, s.loc); err != nil {
		return nil, err
	}
	if s.Next(start).IsZero() {
		return nil, usage("--schedule", fmt.Sprintf("%q never comes", o.Expr), "check day and month: 30 February does not exist")
	}
	switch {
	case !s.NextRun(start).IsZero():
	case s.window == nil:
		return nil, usage("--schedule", fmt.Sprintf("%q does not come within %d years", o.Expr, searchYears), "write a shorter time, or run the command once")
	default:
		return nil, usage("--window", fmt.Sprintf("no tick of %q falls between %s", o.Expr, o.Window), "the window is in the same time zone as the schedule: widen it, or move the schedule")
	}
	return s, nil
}

// readable reports whether Go goes by a value of TZ. Of one that it cannot read, as a rule
// such as CET-1CEST or a name with a typing error, it makes UTC without a word
// (time/zoneinfo_unix.go, initLocal).
func readable(tz string) bool {
	tz = strings.TrimPrefix(tz, ":")
	if tz == "" {
		return true
	}
	if filepath.IsAbs(tz) {
		raw, err := os.ReadFile(tz)
		if err != nil {
			return false
		}
		_, err = time.LoadLocationFromTZData("", raw)
		return err == nil
	}
	_, err := time.LoadLocation(tz)
	return err == nil
}

// parseTicks lets robfig/cron read the expression, which is all that it is used
// for: its own clock skips a run in the night in which an hour is left out, and
// doubles it when one is repeated.
func parseTicks(expr string, loc *time.Location, start time.Time) (ticker, error) {
	hint := `five fields (minute hour day-of-month month day-of-week), for example "30 3 * * *"; or @hourly, @daily, @weekly, @monthly, or "@every 5m"`
	if zone, ok := strings.CutPrefix(strings.TrimPrefix(expr, "CRON_"), "TZ="); ok {
		zone, _, _ = strings.Cut(zone, " ")
		return nil, usage("--schedule", "the time zone has a flag of its own", "give --timezone "+zone)
	}
	if every, ok := strings.CutPrefix(expr, "@every "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(every))
		if err != nil || d < shortest {
			return nil, usage("--schedule", fmt.Sprintf("%q: want a time of at least %s after @every", expr, shortest), hint)
		}
		return interval{start: start, every: d}, nil
	}
	parsed, err := cron.ParseStandard(expr)
	if err != nil {
		if fields := strings.Fields(expr); len(fields) == 5 && strings.Contains(fields[4], "7") {
			hint = "days of the week are 0 to 6 or sun to sat: Sunday is 0 or sun, not 7"
		}
		return nil, usage("--schedule", fmt.Sprintf("%q: %v", expr, err), hint)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, usage("--schedule", fmt.Sprintf("%q is not a cron expression", expr), hint)
	}
	return &calendar{spec: spec, loc: loc}, nil
}

func usage(flag, msg, hint string) error {
	return &fault.Error{Kind: fault.Usage, Cause: "schedule", Subject: flag, Msg: msg, Hint: hint}
}

// interval ticks every so often, counted from start.
type interval struct {
	start time.Time
	every time.Duration
}

func (i interval) after(t time.Time) time.Time {
	since := t.Sub(i.start)
	n := since / i.every
	if since >= 0 || since%i.every == 0 {
		n++ // division rounds towards zero
	}
	return i.start.Add(n * i.every)
}

// Next returns the first tick after t, whatever the window, or the zero time if
// none is left. Jitter is not in it.
func (s *Schedule) Next(t time.Time) time.Time {
	next := s.ticks.after(t.Round(0))
	if next.IsZero() {
		return next
	}
	return next.In(s.loc)
}

// The search for a tick inside the window ends after so many ticks and so much
// time. Leap days are up to 8 years apart.
const (
	searchTicks = 200_000
	searchYears = 9
)

// NextRun returns the first tick after t that falls into the window, or the zero
// time if there is none.
func (s *Schedule) NextRun(t time.Time) time.Time {
	limit := t.AddDate(searchYears, 0, 0)
	for range searchTicks {
		if t = s.Next(t); t.IsZero() || t.After(limit) {
			return time.Time{}
		}
		if s.window.Contains(t) {
			return t
		}
		// What lies outside need not be looked through tick by tick.
		if open := s.window.opens(t); open.After(t) {
			t = open.Add(-time.Nanosecond)
		}
	}
	return time.Time{}
}

// Runs returns the next n ticks inside the window after t.
func (s *Schedule) Runs(t time.Time, n int) []time.Time {
	var out []time.Time
	for range n {
		if t = s.NextRun(t); t.IsZero() {
			break
		}
		out = append(out, t)
	}
	return out
}

// Latest returns when the run of a tick begins at the latest: jitter makes it
// later, but never as late as the next tick or the end of the window.
func (s *Schedule) Latest(due time.Time) time.Time {
	latest := due.Add(s.opts.Jitter)
	for _, limit := range []time.Time{s.Next(due), s.window.End(due)} {
		if last := limit.Add(-time.Millisecond); !limit.IsZero() && last.Before(latest) {
			latest = last
		}
	}
	return latest
}

// Window returns the window, nil for the whole day; a nil window contains all.
func (s *Schedule) Window() *Window { return s.window }

// Zone returns the name of the time zone. Go calls the machine's own "Local"; the
// name is then where /etc/localtime leads to, or the offset as of now.
func (s *Schedule) Zone() string {
	name := s.loc.String()
	if name != "Local" {
		return name
	}
	if to, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if _, zone, ok := strings.Cut(to, "/zoneinfo/"); ok {
			return zone
		}
	}
	return time.Now().In(s.loc).Format("UTC-07:00")
}

// Options returns what the schedule was made of.
func (s *Schedule) Options() Options { return s.opts }

// String shows the schedule.
func (s *Schedule) String() string {
	out := fmt.Sprintf("%q", s.opts.Expr)
	if s.opts.Timezone != "" {
		out += " in " + s.opts.Timezone
	}
	if s.window != nil {
		out += " between " + s.opts.Window
	}
	if s.opts.Jitter > 0 {
		out += ", up to " + s.opts.Jitter.String() + " later, before the next tick"
		if s.window != nil {
			out += " and inside the window"
		}
	}
	return out
}
