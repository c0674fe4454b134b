package schedule

import (
	"context"
	"math/rand/v2"
	"time"
)

// Reason says why a tick brought no run. The set is closed.
type Reason string

// The reasons of the loop itself. Whoever runs may have more.
const (
	Running Reason = "running" // a run was going: dropped, not queued
	Missed  Reason = "missed"  // the machine slept, or its clock jumped: not replayed
	Outside Reason = "window"  // outside the window
)

const (
	// piece is the longest that the loop sleeps at once: timers know nothing of a
	// clock that was set, or of a machine that was suspended.
	piece = 5 * time.Second
	// grace is how late a tick may be and still run. Cron's own resolution.
	grace = time.Minute
	// stepBack is how far a clock may be set back before ticks that it shows again
	// count as new. Less is a correction, and nothing runs twice for it.
	stepBack = time.Hour
	// countLimit ends the counting of ticks that passed unused.
	countLimit = 10_000
)

// Tick is one run that is due.
type Tick struct {
	Due   time.Time // by the schedule
	Until time.Time // when the window ends; zero: no end
}

// Observer is told what the loop does. It is called by the loop's goroutine.
type Observer interface {
	Next(at time.Time)             // the next run is due then, jitter included
	Skipped(why Reason, ticks int) // ticks that bring no run
	Alive(now time.Time)           // at least every few seconds while no run is going
}

// Loop calls Run at each tick, one at a time.
type Loop struct {
	Schedule *Schedule
	Observer Observer
	Run      func(ctx context.Context, t Tick)
	Clock    Clock               // nil: System
	Random   func(n int64) int64 // a number from 0 to n-1, for jitter; nil: random
}

// Serve runs until ctx ends or stop is closed. It does not end a run: that is
// for Run, which sees the same context.
func (l *Loop) Serve(ctx context.Context, stop <-chan struct{}) {
	if l.Clock == nil {
		l.Clock = System{}
	}
	if l.Random == nil {
		l.Random = rand.Int64N
	}
	last := l.now()
	for {
		if now := l.now(); now.Before(last.Add(-stepBack)) {
			last = now // else it would wait for years to come again
		}
		due := l.Schedule.Next(last)
		if due.IsZero() {
			return
		}
		start := due.Add(l.jitter(due))
		l.announce(due, start)
		switch l.sleep(ctx, stop, start) {
		case stopped:
			return
		case setBack:
			continue
		case arrived:
			last = l.tick(ctx, due, start)
		}
	}
}

// now is wall time: what the calendar goes by.
func (l *Loop) now() time.Time { return l.Clock.Now().Round(0) }

// jitter chooses how much later than its tick a run begins.
func (l *Loop) jitter(due time.Time) time.Duration {
	most := l.Schedule.Latest(due).Sub(due)
	if most <= 0 {
		return 0
	}
	return time.Duration(l.Random(int64(most)))
}

// announce tells when the next run will be, which is later than the next tick if
// that is outside the window.
func (l *Loop) announce(due, start time.Time) {
	next := start
	if !l.Schedule.window.Contains(due) {
		next = l.Schedule.NextRun(due)
	}
	l.Observer.Next(next)
}

type waking int

const (
	arrived waking = iota
	stopped
	setBack
)

// sleep waits until the clock on the wall says that it is time.
func (l *Loop) sleep(ctx context.Context, stop <-chan struct{}, until time.Time) waking {
	for seen := l.now(); ; {
		now := l.now()
		if now.Before(seen.Add(-stepBack)) {
			return setBack
		}
		seen = now
		l.Observer.Alive(now)
		select { // asked first: a stop wins over a tick that is due
		case <-ctx.Done():
			return stopped
		case <-stop:
			return stopped
		default:
		}
		left := until.Sub(now)
		if left <= 0 {
			return arrived
		}
		timer, done := l.Clock.After(min(left, piece))
		select {
		case <-timer:
		case <-ctx.Done():
		case <-stop:
		}
		done()
	}
}

// tick runs what is due, unless that was missed or lies outside the window, and
// returns the last tick that is done with.
func (l *Loop) tick(ctx context.Context, due, start time.Time) time.Time {
	now := l.now()
	// Several may have passed while the machine slept. The newest may still be
	// young enough to run.
	later, newest := l.passed(due, now)
	if later > 0 {
		l.Observer.Skipped(Missed, later)
		start = newest
	}
	if now.Sub(start) > grace {
		l.Observer.Skipped(Missed, 1)
		return newest
	}
	// A tick before the window is none of it, also where jitter makes it late enough.
	if w := l.Schedule.window; !w.Contains(newest) || !w.Contains(now) {
		l.Observer.Skipped(Outside, 1)
		return newest
	}
	l.Run(ctx, Tick{Due: newest, Until: l.Schedule.window.End(now)})
	dropped, last := l.passed(newest, l.now())
	if dropped > 0 {
		l.Observer.Skipped(Running, dropped)
	}
	return last
}

// passed counts the ticks after one tick up to now, and returns the newest.
func (l *Loop) passed(tick, now time.Time) (int, time.Time) {
	n, newest := 0, tick
	for n < countLimit {
		next := l.Schedule.Next(newest)
		if next.IsZero() || next.After(now) {
			return n, newest
		}
		n, newest = n+1, next
	}
	return n, now
}
