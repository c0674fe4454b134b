package cli

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"

	"kvd/pkg/ops/fault"
)

// mostActors is more than any load can have: each actor and object is remembered.
const mostActors = 10_000_000

// checkBounds refuses numbers that no load can be made of: NaN passes every
// comparison with a bound, and what is remembered for each of a billion nodes does
// not fit into memory.
func checkBounds(fs *pflag.FlagSet) (err error) {
	fs.Visit(func(f *pflag.Flag) {
		bad := func(why string) {
			err = &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "--" + f.Name, Subject: f.Value.String(), Msg: why}
		}
		switch f.Value.Type() {
		case "float64":
			if v, e := strconv.ParseFloat(f.Value.String(), 64); e != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				bad("is not a number that a load can be made of")
			}
		case "int":
			if n, e := strconv.Atoi(f.Value.String()); e == nil && n > mostActors {
				bad(fmt.Sprintf("is more than one generator can play: %d at most", mostActors))
			}
		}
	})
	return err
}
