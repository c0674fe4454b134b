package schedule

import (
	"fmt"
	"strings"
	"time"
)

// Window is a part of every day, from its begin to just before its end, by the
// clock on the wall. It may go across midnight. At daylight saving its edges
// follow the rule of ticks: an edge that is skipped is at the first instant
// after, one that comes twice counts the first time. A nil Window is the whole
// day. It is safe for concurrent use.
type Window struct {
	from, to time.Duration // since midnight
	loc      *time.Location
}

// ParseWindow reads "HH:MM-HH:MM"; empty is nil.
func ParseWindow(text string, loc *time.Location) (*Window, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	bad := func(msg string) error {
		return usage("--window", fmt.Sprintf("%q: %s", text, msg), "for example 01:00-05:00, or 22:30-04:00 across midnight")
	}
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		return nil, bad("want a begin and an end")
	}
	w := &Window{loc: loc}
	for _, side := range []struct {
		text string
		into *time.Duration
	}{{from, &w.from}, {to, &w.to}} {
		d, ok := timeOfDay(strings.TrimSpace(side.text))
		if !ok {
			return nil, bad(fmt.Sprintf("%q is not a time of day", side.text))
		}
		*side.into = d
	}
	if w.from == day {
		return nil, bad("a window can't begin at 24:00")
	}
	if w.from == w.to {
		return nil, bad("begin and end are the same")
	}
	return w, nil
}

const day = 24 * time.Hour

// timeOfDay reads 00:00 to 24:00.
func timeOfDay(s string) (time.Duration, bool) {
	if s == "24:00" {
		return day, true
	}
	t, err := time.Parse("15:04", s)
	if err != nil {
		return 0, false
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, true
}

// on returns the window that begins on the date of a wall time's midnight.
func (w *Window) on(date time.Time) (begin, end time.Time) {
	to := date.Add(w.to)
	if w.to <= w.from {
		to = to.AddDate(0, 0, 1)
	}
	return instant(date.Add(w.from), w.loc), instant(to, w.loc)
}

// days are the dates on which a window may begin that matters at t.
func (w *Window) days(t time.Time) [3]time.Time {
	local := t.In(w.loc)
	today := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	return [3]time.Time{today.AddDate(0, 0, -1), today, today.AddDate(0, 0, 1)}
}

// Contains reports whether t is inside the window.
func (w *Window) Contains(t time.Time) bool {
	return w == nil || !w.End(t).IsZero()
}

// End returns when the window that t is in ends; the zero time if t is in none,
// or if the window is the whole day.
func (w *Window) End(t time.Time) time.Time {
	if w == nil {
		return time.Time{}
	}
	for _, d := range w.days(t) {
		if begin, end := w.on(d); !t.Before(begin) && t.Before(end) {
			return end.In(w.loc)
		}
	}
	return time.Time{}
}

// opens returns when the first window after t begins.
func (w *Window) opens(t time.Time) time.Time {
	if w == nil {
		return t
	}
	for _, d := range w.days(t) {
		if begin, _ := w.on(d); begin.After(t) {
			return begin
		}
	}
	return t
}
