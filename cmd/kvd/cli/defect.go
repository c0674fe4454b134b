package cli

import (
	"fmt"
	"runtime/debug"

	"kvd/pkg/ops/fault"
)

// defectsToldApart runs a command and makes an error of a panic, after its trace.
// Go ends a program that panics with 2, which here means that the call was wrong
// and that nothing was sent. A panic of another goroutine still ends like that.
func (a *App) defectsToldApart(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.settle()
			fmt.Fprintf(a.IO.Err, "panic: %v\n\n%s\n", p, debug.Stack())
			err = &fault.Error{Kind: fault.Internal, Cause: "panic", Msg: fmt.Sprintf("a defect in kvd: %v", p),
				Hint: "what was done until then is done: look at the cluster with `kvd status`, and report the trace above"}
		}
	}()
	return run()
}
