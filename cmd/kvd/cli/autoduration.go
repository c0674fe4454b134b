package cli

import (
	"fmt"
	"time"
)

// autoDuration is a flag for a time, or for "auto", which is zero.
type autoDuration struct{ d time.Duration }

// String shows the time; zero is auto.
func (a *autoDuration) String() string {
	if a.d == 0 {
		return "auto"
	}
	return a.d.String()
}

// Type names the kind of flag value.
func (a *autoDuration) Type() string { return "duration" }

// Set reads auto, or a time above zero.
func (a *autoDuration) Set(s string) error {
	if s == "auto" {
		a.d = 0
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time: want auto, or for example 90s", s)
	}
	a.d = d
	return nil
}
