package result

import (
	"fmt"

	"kvd/pkg/ops/fault"
)

// mixedUp finds sides that are none: both variants of an A/B run on one of them. Taken
// together, they would be called what the first is.
func mixedUp(a, b []*Run) error {
	for _, side := range [][]*Run{a, b} {
		for _, r := range side {
			if r.Variant != side[0].Variant {
				return &fault.Error{Kind: fault.Usage, Cause: "two_variants", Op: "compare",
					Msg:  fmt.Sprintf("one side has runs of two variants, %q and %q", side[0].Variant, r.Variant),
					Hint: "what --ab has written is compared by itself: kvd loadgen compare FILE"}
			}
		}
	}
	return nil
}

// stoppedNotes says which runs of a side ended before their time.
func stoppedNotes(side string, runs []*Run) []string {
	var out []string
	for i, r := range runs {
		if why := StoppedText(r.Totals.Stopped); why != "" {
			out = append(out, fmt.Sprintf("run %d of %s ended before its time, after %.1f s of the measurement: %s", i+1, side, r.Totals.Measured, why))
		}
	}
	return out
}
