package cli

import (
	"bufio"
	"fmt"
	"strings"

	"kvd/pkg/ops/fault"
)

// confirm asks whether to go on. The prompt goes to stderr, end of input is no.
// Without a terminal nobody can be asked, so consent must be in the call.
func (a *App) confirm(yes bool, question string) error {
	if yes || a.Getenv("KVD_YES") == "1" {
		return nil
	}
	if !a.IO.canAsk() {
		return &fault.Error{Kind: fault.Refused, Cause: "not_confirmed",
			Msg:  "not confirmed: there is no terminal to ask on, and nothing was changed",
			Hint: "give --yes (or KVD_YES=1) to run the plan, or --dry-run to see it only"}
	}
	fmt.Fprintf(a.IO.Err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.IO.In).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: "not_confirmed", Msg: "not confirmed: nothing was changed"}
}
