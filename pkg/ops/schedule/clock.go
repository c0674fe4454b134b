package schedule

import "time"

// Clock is where time comes from.
type Clock interface {
	Now() time.Time
	// After returns a channel that gets the time once d has passed, and a
	// function that lets go of it.
	After(d time.Duration) (<-chan time.Time, func())
}

// System is the machine's clock.
type System struct{}

// Now returns the time.
func (System) Now() time.Time { return time.Now() }

// After is a timer.
func (System) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
