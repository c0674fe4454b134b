package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"kvd/pkg/ops/fault"
)

// goal turns --to, --keep-revisions and --keep-duration into one goal.
func (o *compactOptions) goal(fs *pflag.FlagSet) error {
	usage := func(msg string) error { return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "compact", Msg: msg} }
	goals := 0
	for _, name := range []string{"to", "keep-revisions", "keep-duration"} {
		if fs.Changed(name) {
			goals++
		}
	}
	switch {
	case goals > 1:
		return usage("--to, --keep-revisions and --keep-duration contradict each other: give one")
	case fs.Changed("keep-duration") && o.Goal.For < time.Second:
		return usage(fmt.Sprintf("--keep-duration %s: want at least 1s", o.Goal.For))
	case fs.Changed("state-dir") && !fs.Changed("keep-duration"):
		return usage("--state-dir is for the samples of --keep-duration")
	case o.timer.on() && fs.Changed("to") && o.to != "head":
		return usage("--to with a number is compacted to once: with --schedule give --keep-revisions, --keep-duration or --to head")
	}
	if fs.Changed("keep-revisions") {
		if o.keep < 1 {
			return usage(fmt.Sprintf("--keep-revisions %d: want at least 1 (`--to head` keeps none)", o.keep))
		}
		o.Goal.Keep = o.keep
	}
	if !fs.Changed("to") {
		return nil
	}
	if o.to == "head" {
		o.Goal.Head = true
		return nil
	}
	rev, err := strconv.ParseInt(o.to, 10, 64)
	if err != nil || rev < 1 {
		return usage(fmt.Sprintf("--to %q: want a revision (1 or more), or head", o.to))
	}
	o.Goal.To = rev
	return nil
}
