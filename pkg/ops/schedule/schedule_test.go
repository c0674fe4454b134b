package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func parse(t *testing.T, o Options, start time.Time) *Schedule {
	t.Helper()
	s, err := Parse(o, start)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ticks lists the ticks after from and before to, with their offsets, since it
// is the offset that tells two instants apart that a clock shows alike.
func ticks(s *Schedule, from, to time.Time) []string {
	var out []string
	for at := s.Next(from); at.Before(to) && !at.IsZero(); at = s.Next(at) {
		out = append(out, at.Format("2 15:04 -0700"))
	}
	return out
}

// TestDaylightSaving goes through the nights in which a clock skips an hour or
// shows one twice. Zones differ in when that is (02:00 local, 01:00 UTC,
// midnight) and in how much (Lord Howe: half an hour).
func TestDaylightSaving(t *testing.T) {
	for _, tc := range []struct {
		zone, expr string
		from       string // 24 hours from this local midnight on
		want       []string
	}{
		// 2026-03-29: 02:00 +1 → 03:00 +2. 2026-10-25: 03:00 +2 → 02:00 +1.
		{"Europe/Berlin", "30 2 * * *", "2026-03-29", []string{"29 03:00 +0200"}},
		{"Europe/Berlin", "0 2 * * *", "2026-03-29", []string{"29 03:00 +0200"}},
		{"Europe/Berlin", "30 1 * * *", "2026-03-29", []string{"29 01:30 +0100"}},
		{"Europe/Berlin", "30 3 * * *", "2026-03-29", []string{"29 03:30 +0200"}},
		{"Europe/Berlin", "10,30,50 2 * * *", "2026-03-29", []string{"29 03:00 +0200"}}, // three skipped, one run
		{"Europe/Berlin", "30 2,3 * * *", "2026-03-29", []string{"29 03:00 +0200", "29 03:30 +0200"}},
		{"Europe/Berlin", "0 2,3 * * *", "2026-03-29", []string{"29 03:00 +0200"}}, // both are the same instant
		{"Europe/Berlin", "30 2 * * *", "2026-10-25", []string{"25 02:30 +0200"}},
		{"Europe/Berlin", "0 2 * * *", "2026-10-25", []string{"25 02:00 +0200"}},
		{"Europe/Berlin", "0 3 * * *", "2026-10-25", []string{"25 03:00 +0100"}},
		{"Europe/Berlin", "0,30 2,3 * * *", "2026-10-25", []string{"25 02:00 +0200", "25 02:30 +0200", "25 03:00 +0100", "25 03:30 +0100"}},
		{"Europe/Berlin", "59 1 * * *", "2026-10-25", []string{"25 01:59 +0200"}},
		// 2026-03-08: 02:00 -5 → 03:00 -4. 2026-11-01: 02:00 -4 → 01:00 -5.
		{"America/New_York", "30 2 * * *", "2026-03-08", []string{"8 03:00 -0400"}},
		{"America/New_York", "15 2 * * sun", "2026-03-08", []string{"8 03:00 -0400"}},
		{"America/New_York", "30 2 8 3 *", "2026-03-08", []string{"8 03:00 -0400"}},
		{"America/New_York", "30 1 * * *", "2026-11-01", []string{"1 01:30 -0400"}},
		{"America/New_York", "0 1,2 * * *", "2026-11-01", []string{"1 01:00 -0400", "1 02:00 -0500"}},
		{"America/New_York", "30 2 * * *", "2026-11-01", []string{"1 02:30 -0500"}},
		// 2026-04-05: 02:00 +11 → 01:30 +10:30. 2026-10-04: 02:00 +10:30 → 02:30 +11.
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-05", []string{"5 01:45 +1100"}},
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-04", []string{"4 02:30 +1100"}},
		// Midnight itself is skipped: 2026-04-24 00:00 +2 → 01:00 +3.
		{"Africa/Cairo", "0 0 * * *", "2026-04-23", []string{"24 01:00 +0300"}},
	} {
		t.Run(fmt.Sprintf("%s %s %s", tc.zone, tc.from, tc.expr), func(t *testing.T) {
			loc := zone(t, tc.zone)
			day, err := time.ParseInLocation(time.DateOnly, tc.from, loc)
			if err != nil {
				t.Fatal(err)
			}
			s := parse(t, Options{Expr: tc.expr, Timezone: tc.zone}, day)
			end := day.AddDate(0, 0, 1)
			if tc.zone == "Africa/Cairo" {
				day, end = day.Add(12*time.Hour), end.Add(12*time.Hour)
			}
			if got := ticks(s, day, end); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			// From wherever one looks, the next tick is the same.
			for at := day; at.Before(end); at = at.Add(7 * time.Minute) {
				next := s.Next(at)
				if !next.After(at) {
					t.Fatalf("after %s comes %s", at, next)
				}
				if mid := at.Add(next.Sub(at) / 2); !s.Next(mid).Equal(next) {
					t.Fatalf("after %s comes %s, but after %s, %s", at, next, mid, s.Next(mid))
				}
			}
		})
	}
}

// TestEveryHourMeansEveryHour: an expression that names no hour goes on through
// an hour that comes twice, and is not held up by one that is left out.
func TestEveryHourMeansEveryHour(t *testing.T) {
	for _, tc := range []struct {
		zone, expr, day string
		want            int
	}{
		{"Europe/Berlin", "*/20 * * * *", "2026-03-29", 23 * 3},
		{"Europe/Berlin", "*/20 * * * *", "2026-10-25", 25 * 3},
		{"Europe/Berlin", "@hourly", "2026-10-25", 25},
		{"America/New_York", "7 * * * *", "2026-03-08", 23 + 1}, // 02:07 is skipped: it runs at 03:00
		{"America/New_York", "7 * * * *", "2026-11-01", 25},
		{"America/New_York", "7 * * * *", "2026-06-01", 24},
		{"America/New_York", "7 */2 * * *", "2026-11-01", 12},
	} {
		loc := zone(t, tc.zone)
		from, _ := time.ParseInLocation(time.DateOnly, tc.day, loc)
		s := parse(t, Options{Expr: tc.expr, Timezone: tc.zone}, from)
		if got := ticks(s, from.Add(-time.Nanosecond), from.AddDate(0, 0, 1)); len(got) != tc.want {
			t.Errorf("%s %s %s: %d ticks, want %d: %v", tc.zone, tc.day, tc.expr, len(got), tc.want, got)
		}
	}
}

// TestAgainstBruteForce compares a year of ticks with what looking at every
// fifth minute finds, in zones with and without daylight saving.
func TestAgainstBruteForce(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"} {
		for _, expr := range []string{"30 3 * * *", "15 1,2,3 * * *", "5 4 1,15 * fri", "0 12 * feb-apr mon", "45 23 31 * *"} {
			loc := zone(t, name)
			from := time.Date(2026, 1, 1, 0, 0, 0, 0, loc)
			to := from.AddDate(1, 0, 0)
			s := parse(t, Options{Expr: expr, Timezone: name}, from)
			c := s.ticks.(*calendar)
			// A minute is a tick if any wall time that was shown or skipped since the
			// minute before, and was never shown before, matches.
			var want []string
			shown := time.Date(2025, 12, 31, 23, 55, 0, 0, time.UTC) // the highest wall time so far
			for at := from; at.Before(to); at = at.Add(5 * time.Minute) {
				wall := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
				for w := shown.Add(5 * time.Minute); !w.After(wall); w = w.Add(5 * time.Minute) {
					if c.day(w) && c.spec.Hour>>uint(w.Hour())&1 == 1 && c.spec.Minute>>uint(w.Minute())&1 == 1 {
						want = append(want, at.Format("2 15:04 -0700"))
						break
					}
				}
				if wall.After(shown) {
					shown = wall
				}
			}
			if got := ticks(s, from.Add(-time.Nanosecond), to); !slices.Equal(got, want) {
				t.Errorf("%s %q: %d ticks, want %d\n got %v\nwant %v", name, expr, len(got), len(want), got, want)
			}
		}
	}
}

func TestLeapDay(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	from := time.Date(2026, 11, 29, 12, 0, 0, 0, berlin)
	s := parse(t, Options{Expr: "30 3 29 2 *", Timezone: "Europe/Berlin"}, from)
	var got []string
	for _, r := range s.Runs(from, 3) {
		got = append(got, r.Format(time.DateTime))
	}
	if want := []string{"2028-02-29 03:30:00", "2032-02-29 03:30:00", "2036-02-29 03:30:00"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// 2100 is no leap year: eight years without a tick.
	if next := s.Next(time.Date(2096, 3, 1, 0, 0, 0, 0, berlin)); next.Year() != 2104 {
		t.Errorf("after 2096 comes %s", next)
	}
	s = parse(t, Options{Expr: "0 0 28-31 2 *", Timezone: "UTC"}, from)
	if got := len(ticks(s, time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC))); got != 2 {
		t.Errorf("%d ticks at the end of February 2028, want 2", got)
	}
}

func TestInterval(t *testing.T) {
	start := time.Date(2026, 10, 25, 0, 30, 0, 500, zone(t, "Europe/Berlin"))
	s := parse(t, Options{Expr: "@every 90m", Timezone: "Europe/Berlin"}, start)
	for i, at := 1, s.Next(start); i <= 5; i, at = i+1, s.Next(at) {
		if want := start.Add(time.Duration(i) * 90 * time.Minute); !at.Equal(want) {
			t.Errorf("tick %d at %s, want %s", i, at, want)
		}
	}
	if got := s.Next(start.Add(-100 * time.Minute)); !got.Equal(start.Add(-90 * time.Minute)) {
		t.Errorf("before the start: %s", got)
	}
	if got := s.Next(start.Add(-90 * time.Minute)); !got.Equal(start) {
		t.Errorf("a tick's next is itself or later: %s", got)
	}
}

func TestWindow(t *testing.T) {
	for _, tc := range []struct {
		zone, window string
		day          string
		open         []string // of 30-minute marks from noon on, these are inside: first and last, and how many
		marks        int
	}{
		{"UTC", "01:00-05:00", "2026-06-01", []string{"2 01:00", "2 04:30"}, 8},
		{"UTC", "22:30-04:00", "2026-12-31", []string{"31 22:30", "1 03:30"}, 11}, // across midnight and a year
		{"UTC", "00:00-24:00", "2026-06-01", []string{"1 12:00", "2 11:30"}, 48},
		{"UTC", "23:00-00:00", "2026-06-01", []string{"1 23:00", "1 23:30"}, 2},
		{"Europe/Berlin", "01:00-05:00", "2026-03-28", []string{"29 01:00", "29 04:30"}, 6},  // an hour short
		{"Europe/Berlin", "01:00-05:00", "2026-10-24", []string{"25 01:00", "25 04:30"}, 10}, // an hour longer
		{"Europe/Berlin", "23:00-02:30", "2026-10-24", []string{"24 23:00", "25 02:00"}, 7},  // closed at the first 02:30
		{"Europe/Berlin", "23:00-02:30", "2026-03-28", []string{"28 23:00", "29 01:30"}, 6},  // closed at 03:00
		{"America/New_York", "22:00-01:30", "2026-10-31", []string{"31 22:00", "1 01:00"}, 7},
		{"America/New_York", "02:00-03:30", "2026-03-07", []string{"8 03:00", "8 03:00"}, 1},
	} {
		loc := zone(t, tc.zone)
		w, err := ParseWindow(tc.window, loc)
		if err != nil {
			t.Fatal(err)
		}
		noon, _ := time.ParseInLocation(time.DateOnly+" 15", tc.day+" 12", loc)
		var open []string
		for at := noon; at.Before(noon.AddDate(0, 0, 1)); at = at.Add(30 * time.Minute) {
			if !w.Contains(at) {
				continue
			}
			open = append(open, at.Format("2 15:04"))
			end := w.End(at)
			if w.Contains(end) && tc.window != "00:00-24:00" || !w.Contains(end.Add(-time.Nanosecond)) {
				t.Errorf("%s: at %s the window ends at %s, which it does not", tc.window, at, end)
			}
		}
		if len(open) != tc.marks || open[0] != tc.open[0] || open[len(open)-1] != tc.open[1] {
			t.Errorf("%s %s %s: open at %v, want %d marks from %s to %s", tc.zone, tc.day, tc.window, open, tc.marks, tc.open[0], tc.open[1])
		}
	}
}

func TestRunsInsideTheWindow(t *testing.T) {
	from := time.Date(2026, 11, 29, 17, 50, 0, 0, time.UTC)
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{Expr: "30 3 * * *"}, "30 03:30, 1 03:30, 2 03:30"},
		{Options{Expr: "0 */2 * * *", Window: "23:00-03:00"}, "30 00:00, 30 02:00, 1 00:00"},
		{Options{Expr: "@every 40m", Window: "01:00-02:00"}, "30 01:10, 30 01:50, 1 01:10"},
		{Options{Expr: "@every 1s", Window: "04:59-05:00"}, "30 04:59, 30 04:59, 30 04:59"},
		{Options{Expr: "0 3 1 1 *", Window: "01:00-05:00"}, "1 03:00, 1 03:00, 1 03:00"},
	} {
		tc.o.Timezone = "UTC"
		s := parse(t, tc.o, from)
		var got []string
		for _, r := range s.Runs(from, 3) {
			got = append(got, r.Format("2 15:04"))
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: %v, want %s", s, got, tc.want)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, o := range []Options{
		{}, {Expr: "   "}, {Expr: "x"}, {Expr: "* * * *"}, {Expr: "60 * * * *"}, {Expr: "* * * * * *"}, {Expr: "*/0 * * * *"},
		{Expr: ", * * * *"}, {Expr: "0 0 30 2 *"}, {Expr: "@reboot"}, {Expr: "@every"}, {Expr: "@every x"}, {Expr: "@every 0s"},
		{Expr: "@every -5m"}, {Expr: "@every 999ms"}, {Expr: "TZ=Europe/Berlin"}, {Expr: "TZ="}, {Expr: "CRON_TZ=UTC 0 3 * * *"},
		{Expr: "@daily", Timezone: "Europe/Berln"}, {Expr: "@daily", Timezone: "../../etc/passwd"},
		{Expr: "@daily", Window: "1-5"}, {Expr: "@daily", Window: "01:00"}, {Expr: "@daily", Window: "01:00-25:00"},
		{Expr: "@daily", Window: "24:00-01:00"}, {Expr: "@daily", Window: "01:00-01:00"}, {Expr: "@daily", Window: "00:00-00:60"},
		{Expr: "30 13 * * *", Window: "01:00-05:00"}, {Expr: "@daily", Jitter: -time.Second},
	} {
		if _, err := Parse(o, time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)); fault.KindOf(err) != fault.Usage {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestErrorsNameTheFlagAtFault and what to write instead.
func TestErrorsNameTheFlagAtFault(t *testing.T) {
	for _, tc := range []struct {
		o         Options
		err, hint string
	}{
		{Options{Expr: "@every 87600h"}, "--schedule", "shorter"},
		{Options{Expr: "30 13 * * *", Window: "01:00-05:00"}, "--window", "widen"},
		{Options{Expr: "@every 87600h", Window: "01:00-05:00"}, "--window", "widen"},
		{Options{Expr: "30 3 * * 7"}, "--schedule", "Sunday is 0 or sun"},
		{Options{Expr: "30 3 * * 5-7"}, "--schedule", "Sunday is 0 or sun"},
		{Options{Expr: "77 3 * * 1"}, "--schedule", "five fields"},
	} {
		_, err := Parse(tc.o, time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC))
		if err == nil || !strings.HasPrefix(err.Error(), tc.err) || !strings.Contains(fault.HintOf(err), tc.hint) {
			t.Errorf("%+v: %v (%s)", tc.o, err, fault.HintOf(err))
		}
	}
}

// TestLatest: jitter is cut by the next tick and by the window's end, at daylight
// saving too.
func TestLatest(t *testing.T) {
	for _, tc := range []struct {
		o    Options
		from string
		want time.Duration
	}{
		{Options{Expr: "30 3 * * *", Jitter: 3 * time.Hour}, "2026-06-01", 3 * time.Hour},
		{Options{Expr: "30 3 * * *", Jitter: 3 * time.Hour, Window: "03:00-04:00"}, "2026-06-01", 30*time.Minute - time.Millisecond},
		{Options{Expr: "0 * * * *", Jitter: 3 * time.Hour}, "2026-06-01", time.Hour - time.Millisecond},
		{Options{Expr: "30 1 * * *", Jitter: 3 * time.Hour, Window: "01:00-04:00"}, "2026-03-29", 90*time.Minute - time.Millisecond},
		{Options{Expr: "30 1 * * *"}, "2026-06-01", 0},
	} {
		tc.o.Timezone = "Europe/Berlin"
		from, _ := time.ParseInLocation(time.DateOnly, tc.from, zone(t, tc.o.Timezone))
		s := parse(t, tc.o, from)
		due := s.NextRun(from)
		if got := s.Latest(due).Sub(due); got != tc.want {
			t.Errorf("%s: up to %s after %s, want %s", s, got, due, tc.want)
		}
	}
}

// TestZoneHasAName, also where nobody gave one.
func TestZoneHasAName(t *testing.T) {
	for _, name := range []string{"", "Europe/Berlin", "UTC"} {
		s := parse(t, Options{Expr: "@daily", Timezone: name}, time.Now())
		if got := s.Zone(); got == "" || got == "Local" || (name != "" && got != name) {
			t.Errorf("%q is shown as %q", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"30 3 * * *", "@every 5m", "TZ=", "*/7 1-5 * jan mon", "@weekly", "0 0 29 2 *"} {
		f.Add(s, "01:00-05:00", "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, expr, window, tz string) {
		at := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
		s, err := Parse(Options{Expr: expr, Window: window, Timezone: tz}, at)
		if err != nil {
			return
		}
		for range 3 {
			next := s.NextRun(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) || !s.Window().Contains(next) {
				t.Fatalf("%s: after %s comes %s", s, at, next)
			}
			at = next
		}
	})
}
