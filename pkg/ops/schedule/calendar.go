package schedule

import (
	"time"

	"github.com/robfig/cron/v3"
)

// anyValue is the bit that robfig/cron sets in a field that was written as a
// star (starBit in its spec.go).
const anyValue = 1 << 63

// calendar ticks by the clock on the wall. Between two changes of its zone's
// offset that clock runs evenly, so ticks are looked for in one such stretch
// after the other. Where two stretches meet:
//
//   - A time that the clock skips ticks at the first instant after it, once, also
//     if several are skipped.
//   - A time that it shows twice ticks the first time. An expression that names
//     no hour ("*/10 * * * *") means every hour that passes, and ticks both times.
type calendar struct {
	spec *cron.SpecSchedule
	loc  *time.Location
}

// A wall time is kept as a time in UTC whose fields are those that the clock
// shows.

func (c *calendar) after(t time.Time) time.Time {
	limit := t.AddDate(searchYears, 0, 0)
	for {
		st := c.stretchAt(t)
		from := t.Add(st.offset).UTC()
		if tick := c.in(st, from); !tick.IsZero() {
			return tick
		}
		if st.end.IsZero() || st.end.After(limit) {
			return time.Time{}
		}
		if c.ticksAt(st.end) {
			return st.end
		}
		t = st.end
	}
}

// in returns the first tick of a stretch whose wall time is after from.
func (c *calendar) in(st stretch, from time.Time) time.Time {
	if st.repeats() && c.spec.Hour&anyValue == 0 {
		// Up to here the clock had shown everything once before.
		if seen := st.begin.Add(st.before).UTC().Add(-time.Nanosecond); seen.After(from) {
			from = seen
		}
	}
	until := from.AddDate(searchYears, 0, 0)
	if !st.end.IsZero() {
		until = st.end.Add(st.offset).UTC()
	}
	wall := c.match(from, until)
	if wall.IsZero() {
		return wall
	}
	return wall.Add(-st.offset)
}

// ticksAt reports whether the first instant of a stretch is a tick: by its own
// wall time, or by one that was skipped.
func (c *calendar) ticksAt(instant time.Time) bool {
	st := c.stretchAt(instant)
	first := instant.Add(st.offset).UTC()
	switch begins := st.begin.Equal(instant); {
	case begins && st.skipped():
		return !c.match(instant.Add(st.before).UTC().Add(-time.Nanosecond), first.Add(time.Nanosecond)).IsZero()
	case begins && st.repeats() && c.spec.Hour&anyValue == 0:
		return false
	}
	return !c.match(first.Add(-time.Nanosecond), first.Add(time.Nanosecond)).IsZero()
}

// stretch is a time during which the zone's offset stays the same.
type stretch struct {
	begin, end     time.Time     // zero where there is none
	offset, before time.Duration // east of UTC: in it, and right before it
}

// skipped and repeats say what the clock did when the stretch began.
func (s stretch) skipped() bool { return !s.begin.IsZero() && s.offset > s.before }
func (s stretch) repeats() bool { return !s.begin.IsZero() && s.offset < s.before }

func (c *calendar) stretchAt(t time.Time) stretch {
	local := t.In(c.loc)
	s := stretch{offset: offsetAt(local)}
	s.begin, s.end = local.ZoneBounds()
	if !s.end.IsZero() && !s.end.After(t) {
		// Beyond the zone's table Go goes by rules, year by year, and on the last day
		// of a leap year it gives an end that has passed.
		s.end = t.Add(24 * time.Hour)
	}
	s.before = s.offset
	if !s.begin.IsZero() {
		s.before = offsetAt(s.begin.Add(-time.Nanosecond))
	}
	return s
}

func offsetAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// match returns the first wall time after from and before until that the
// expression names, or the zero time.
func (c *calendar) match(from, until time.Time) time.Time {
	t := from.Truncate(time.Minute).Add(time.Minute)
	for day := midnight(t); day.Before(until); day = day.AddDate(0, 0, 1) {
		if !c.day(day) {
			continue
		}
		if t.Before(day) {
			t = day
		}
		for ; t.Before(day.AddDate(0, 0, 1)); t = t.Add(time.Minute) {
			if c.spec.Hour&(1<<uint(t.Hour())) == 0 {
				t = t.Truncate(time.Hour).Add(time.Hour - time.Minute)
				continue
			}
			if c.spec.Minute&(1<<uint(t.Minute())) != 0 {
				if t.Before(until) {
					return t
				}
				return time.Time{}
			}
		}
	}
	return time.Time{}
}

// day follows cron's old rule: where both day fields are restricted, either
// will do.
func (c *calendar) day(t time.Time) bool {
	s := c.spec
	if s.Month&(1<<uint(t.Month())) == 0 {
		return false
	}
	dom, dow := s.Dom&(1<<uint(t.Day())) != 0, s.Dow&(1<<uint(t.Weekday())) != 0
	if s.Dom&anyValue != 0 || s.Dow&anyValue != 0 {
		return dom && dow
	}
	return dom || dow
}

func midnight(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// instant returns when a clock in loc first shows the wall time; for one that it
// skips, the first instant after.
func instant(wall time.Time, loc *time.Location) time.Time {
	c := calendar{loc: loc}
	// time.Date picks either side of a change: begin well before it.
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, loc).Add(-26 * time.Hour)
	for {
		st := c.stretchAt(t)
		at := wall.Add(-st.offset)
		switch {
		case !st.begin.IsZero() && at.Before(st.begin):
			return st.begin
		case st.end.IsZero() || at.Before(st.end):
			return at
		}
		t = st.end
	}
}
