package cli

import (
	"fmt"
	"io"

	"kvd/pkg/ops/fault"
)

// Defect shows a panic with its trace, says what to do next, and returns the exit
// code of a defect.
func Defect(w io.Writer, what any, stack []byte) int {
	app := &App{IO: &IOStreams{Err: w}}
	fmt.Fprintf(w, "\npanic: %v\n\n%s\n", what, stack)
	err := &fault.Error{Kind: fault.Internal, Cause: "panic", Msg: fmt.Sprintf("a defect in kvd: %v", what),
		Hint: "what was done until then is done: look at the cluster with `kvd status`, and report the trace above"}
	app.printError(err)
	return codeOf(err, 0)
}
