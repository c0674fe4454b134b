package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"kvd/pkg/ops/fault"
)

// confirm asks whether to go on. The prompt goes to stderr, end of input is no,
// and so is the end of ctx. Without a terminal nobody can be asked, so consent
// must be in the call.
func (a *App) confirm(ctx context.Context, yes bool, question string) error {
	if yes || a.Getenv("KVD_YES") == "1" {
		return nil
	}
	if !a.IO.canAsk() {
		return &fault.Error{Kind: fault.Refused, Cause: "not_confirmed",
			Msg:  "not confirmed: there is no terminal to ask on, and nothing was changed",
			Hint: "give --yes (or KVD_YES=1) to run the plan, or --dry-run to see it only"}
	}
	fmt.Fprintf(a.IO.Err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		// A read from a terminal cannot be ended; it ends with the process.
		line, _ := bufio.NewReader(a.IO.In).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.IO.Err)
		return &fault.Error{Kind: fault.Interrupted, Msg: "interrupted before anything was changed"}
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
	}
	return &fault.Error{Kind: fault.Refused, Cause: "not_confirmed", Msg: "not confirmed: nothing was changed"}
}
