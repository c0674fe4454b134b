package cli

import "fmt"

// onOff is a flag's value that is given as on or off; true and false are taken as well.
type onOff bool

// String is how the value is given.
func (o *onOff) String() string {
	if *o {
		return "on"
	}
	return "off"
}

// Type names the kind of flag value.
func (o *onOff) Type() string { return "on|off" }

// Set accepts one of the words.
func (o *onOff) Set(s string) error {
	switch s {
	case "on", "true":
		*o = true
	case "off", "false":
		*o = false
	default:
		return fmt.Errorf("%q: want on or off", s)
	}
	return nil
}
