package schedule

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// fakeClock advances by itself when it is waited for, so that a loop runs
// through days in no time and always in the same way.
type fakeClock struct {
	now   time.Time
	jumps map[time.Time]time.Time // at the first look at or after the key, the clock is set to the value
	waits int
}

func (c *fakeClock) Now() time.Time {
	for at, to := range c.jumps {
		if !c.now.Before(at) {
			delete(c.jumps, at)
			c.now = to
		}
	}
	return c.now
}

func (c *fakeClock) After(d time.Duration) (<-chan time.Time, func()) {
	c.waits++
	c.now = c.now.Add(d)
	ch := make(chan time.Time, 1)
	ch <- c.now
	return ch, func() {}
}

// scene is one loop in a test.
type scene struct {
	clock   *fakeClock
	stop    chan struct{}
	until   time.Time
	took    func(run int) time.Duration
	runs    []time.Time
	ends    []time.Time // of the windows
	skipped map[Reason]int
	next    []time.Time
	closed  bool
}

func (s *scene) Next(at time.Time)             { s.next = append(s.next, at) }
func (s *scene) Skipped(why Reason, ticks int) { s.skipped[why] += ticks }
func (s *scene) Alive(now time.Time) {
	if !now.Before(s.until) && !s.closed {
		s.closed = true
		close(s.stop)
	}
}

func (s *scene) run(_ context.Context, t Tick) {
	s.runs = append(s.runs, s.clock.Now())
	s.ends = append(s.ends, t.Until)
	if s.took != nil {
		s.clock.now = s.clock.now.Add(s.took(len(s.runs)))
	}
}

// play runs a schedule from one time to another.
func play(t *testing.T, o Options, from time.Time, d time.Duration, change func(*scene, *Loop)) *scene {
	t.Helper()
	s := &scene{clock: &fakeClock{now: from}, stop: make(chan struct{}), until: from.Add(d), skipped: map[Reason]int{}}
	l := &Loop{Schedule: parse(t, o, from), Observer: s, Run: s.run, Clock: s.clock, Random: func(int64) int64 { return 0 }}
	if change != nil {
		change(s, l)
	}
	l.Serve(t.Context(), s.stop)
	return s
}

func at(day, hour, minute int) time.Time {
	return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC)
}

func times(ts []time.Time) string {
	out := []string{}
	for _, t := range ts {
		out = append(out, t.UTC().Format("2 15:04:05"))
	}
	return fmt.Sprint(out)
}

func TestLoopRunsAtEachTick(t *testing.T) {
	s := play(t, Options{Expr: "30 3 * * *", Timezone: "UTC"}, at(1, 12, 0), 72*time.Hour, nil)
	if got := times(s.runs); got != "[2 03:30:00 3 03:30:00 4 03:30:00]" {
		t.Errorf("runs at %s", got)
	}
	if len(s.skipped) != 0 {
		t.Errorf("skipped %v", s.skipped)
	}
}

// TestTicksDuringARunAreDropped: they are counted and not made up for.
func TestTicksDuringARunAreDropped(t *testing.T) {
	for _, tc := range []struct {
		expr    string
		took    time.Duration
		runs    string
		dropped int
	}{
		{"@every 10m", 25 * time.Minute, "[1 12:10:00 1 12:40:00 1 13:10:00]", 6},
		{"@every 10m", 9*time.Minute + 59*time.Second, "[1 12:10:00 1 12:20:00 1 12:30:00 1 12:40:00 1 12:50:00 1 13:00:00 1 13:10:00 1 13:20:00 1 13:30:00]", 0},
		{"@every 10m", 10 * time.Minute, "[1 12:10:00 1 12:30:00 1 12:50:00 1 13:10:00 1 13:30:00]", 5},
		{"0 * * * *", 61 * time.Minute, "[1 13:00:00]", 1},
		{"*/5 * * * *", 52 * time.Minute, "[1 12:05:00 1 13:00:00]", 20},
	} {
		s := play(t, Options{Expr: tc.expr, Timezone: "UTC"}, at(1, 12, 0), 95*time.Minute, func(s *scene, _ *Loop) {
			s.took = func(int) time.Duration { return tc.took }
		})
		if got := times(s.runs); got != tc.runs || s.skipped[Running] != tc.dropped {
			t.Errorf("%s, runs of %s: at %s, %d dropped; want %s, %d", tc.expr, tc.took, got, s.skipped[Running], tc.runs, tc.dropped)
		}
	}
}

// TestMissedTicksAreNotReplayed: the machine sleeps, or its clock jumps, over
// ticks.
func TestMissedTicksAreNotReplayed(t *testing.T) {
	for _, tc := range []struct {
		expr   string
		jumps  map[time.Time]time.Time
		d      time.Duration
		runs   string
		missed int
	}{
		{"30 3 * * *", map[time.Time]time.Time{at(2, 3, 0): at(2, 9, 0)}, 48 * time.Hour, "[3 03:30:00]", 1},
		{"30 3 * * *", map[time.Time]time.Time{at(2, 3, 0): at(5, 9, 0)}, 120 * time.Hour, "[6 03:30:00]", 4},
		// Late by less than a minute: it runs.
		{"30 3 * * *", map[time.Time]time.Time{at(2, 3, 0): at(2, 3, 30).Add(50 * time.Second)}, 24 * time.Hour, "[2 03:30:50]", 0},
		{"30 3 * * *", map[time.Time]time.Time{at(2, 3, 0): at(2, 3, 31).Add(time.Second)}, 24 * time.Hour, "[]", 1},
		// Many were missed, and the newest is young enough.
		{"@every 20s", map[time.Time]time.Time{at(1, 12, 0).Add(30 * time.Second): at(1, 13, 0)}, 61 * time.Minute, "[1 12:00:20 1 13:00:00 1 13:00:20 1 13:00:40]", 178},
		// Set back by a little: the tick that is shown again does not run again.
		{"30 3 * * *", map[time.Time]time.Time{at(2, 3, 31): at(2, 3, 29)}, 48 * time.Hour, "[2 03:30:00 3 03:30:00]", 0},
	} {
		s := play(t, Options{Expr: tc.expr, Timezone: "UTC"}, at(1, 12, 0), tc.d, func(s *scene, _ *Loop) {
			s.clock.jumps = maps.Clone(tc.jumps)
		})
		if got := times(s.runs); got != tc.runs || s.skipped[Missed] != tc.missed {
			t.Errorf("%s with %v: runs at %s, %d missed; want %s, %d", tc.expr, tc.jumps, got, s.skipped[Missed], tc.runs, tc.missed)
		}
	}
}

// TestClockPutRight: a clock that was years ahead is set back while the loop
// waits. It must not wait for a tick of the future it came from.
func TestClockPutRight(t *testing.T) {
	s := play(t, Options{Expr: "30 3 * * *", Timezone: "UTC"}, at(1, 12, 0), 0, func(s *scene, _ *Loop) {
		s.clock.jumps = map[time.Time]time.Time{at(1, 12, 1): at(10, 12, 0).AddDate(-4, 0, 0)}
		s.until = at(30, 0, 0)
		s.took = func(int) time.Duration { s.closed = true; close(s.stop); return 0 }
	})
	if got := times(s.runs); got != "[11 03:30:00]" || s.runs[0].Year() != 2022 {
		t.Errorf("runs at %s of %d", got, s.runs[0].Year())
	}
}

// TestClockSetBackDuringARun is the same while a run is going.
func TestClockSetBackDuringARun(t *testing.T) {
	s := play(t, Options{Expr: "30 3 * * *", Timezone: "UTC"}, at(20, 12, 0), 0, func(s *scene, _ *Loop) {
		s.until = at(30, 0, 0)
		s.took = func(run int) time.Duration {
			if run == 1 {
				return -10 * 24 * time.Hour
			}
			return time.Minute
		}
	})
	if got := times(s.runs[:3]); got != "[21 03:30:00 12 03:30:00 13 03:30:00]" {
		t.Errorf("runs at %s", got)
	}
}

func TestLoopKeepsToTheWindow(t *testing.T) {
	s := play(t, Options{Expr: "0 */3 * * *", Window: "22:00-04:00", Timezone: "UTC"}, at(1, 12, 0), 48*time.Hour, nil)
	if got := times(s.runs); got != "[2 00:00:00 2 03:00:00 3 00:00:00 3 03:00:00]" {
		t.Errorf("runs at %s", got)
	}
	if s.skipped[Outside] != 12-1 && s.skipped[Outside] != 12 {
		t.Errorf("%d ticks outside the window, of 16 in two days 4 are inside", s.skipped[Outside])
	}
	for i, end := range s.ends {
		if want := at(s.runs[i].Day(), 4, 0); !end.Equal(want) {
			t.Errorf("run %d: the window ends at %s, want %s", i, end, want)
		}
	}
	// What is announced is a run, never a tick that will be skipped.
	for _, n := range s.next {
		if h := n.Hour(); h != 0 && h != 3 {
			t.Errorf("next run announced for %s", n)
		}
	}
}

// TestJitterDoesNotBringATickIntoTheWindow: which ticks run is known beforehand.
func TestJitterDoesNotBringATickIntoTheWindow(t *testing.T) {
	o := Options{Expr: "50 0,3 * * *", Timezone: "UTC", Window: "01:00-05:00", Jitter: 20 * time.Minute}
	s := play(t, o, at(1, 12, 0), 24*time.Hour, func(_ *scene, l *Loop) {
		l.Random = func(n int64) int64 { return n - 1 }
	})
	if got := times(s.runs); got != "[2 04:09:59]" {
		t.Errorf("runs at %s", got)
	}
	if want := map[Reason]int{Outside: 1}; !maps.Equal(s.skipped, want) {
		t.Errorf("skipped %v, want %v", s.skipped, want)
	}
}

func TestJitter(t *testing.T) {
	for _, tc := range []struct {
		o    Options
		most time.Duration // that jitter may be
	}{
		{Options{Expr: "30 3 * * *", Jitter: 20 * time.Minute}, 20 * time.Minute},
		{Options{Expr: "30 3 * * *", Jitter: 48 * time.Hour}, 24*time.Hour - time.Millisecond},                     // never past the next tick
		{Options{Expr: "30 3 * * *", Jitter: time.Hour, Window: "01:00-04:00"}, 30*time.Minute - time.Millisecond}, // nor past the window
		{Options{Expr: "@every 20s", Jitter: time.Hour}, 20*time.Second - time.Millisecond},
		{Options{Expr: "30 3 * * *"}, 0},
	} {
		tc.o.Timezone = "UTC"
		var asked []int64
		for _, part := range []int64{0, 3, 7} { // of 8
			s := play(t, tc.o, at(1, 12, 0), 72*time.Hour, func(s *scene, l *Loop) {
				l.Random = func(n int64) int64 { asked = append(asked, n); return n / 8 * part }
			})
			if len(s.runs) < 2 {
				t.Fatalf("%+v: %d runs", tc.o, len(s.runs))
			}
			plain := parse(t, tc.o, at(1, 12, 0))
			for i, run := range s.runs[:2] {
				due := plain.Runs(at(1, 12, 0), 2)[i]
				if got := run.Sub(due); got != tc.most/8*time.Duration(part) && (got-tc.most/8*time.Duration(part)).Abs() > 8 {
					t.Errorf("%+v: run %d is %s after its tick, want %s", tc.o, i, got, tc.most/8*time.Duration(part))
				}
			}
			if len(s.skipped) > 0 && s.skipped[Running]+s.skipped[Missed] > 0 {
				t.Errorf("%+v: skipped %v", tc.o, s.skipped)
			}
		}
		if tc.most > 0 && (len(asked) == 0 || slices.Max(asked) != int64(tc.most)) {
			t.Errorf("%+v: jitter chosen from %v, want %s", tc.o, asked, tc.most)
		}
	}
}

// TestStopEndsTheLoop: also while a tick is due, and never a run.
func TestStopEndsTheLoop(t *testing.T) {
	s := play(t, Options{Expr: "@every 1m", Timezone: "UTC"}, at(1, 12, 0), 0, nil)
	if len(s.runs) != 0 || s.clock.waits != 0 {
		t.Errorf("%d runs, %d waits after a stop", len(s.runs), s.clock.waits)
	}
	ctx, cancel := context.WithCancel(t.Context())
	real := &scene{clock: &fakeClock{}, skipped: map[Reason]int{}, until: time.Now().Add(time.Hour)}
	l := &Loop{Schedule: parse(t, Options{Expr: "@every 1h"}, time.Now()), Observer: real, Run: real.run}
	ended := make(chan struct{})
	go func() { l.Serve(ctx, nil); close(ended) }()
	cancel()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the loop goes on after its context ended")
	}
}
