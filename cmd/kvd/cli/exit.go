package cli

import (
	"fmt"
	"strings"
	"syscall"

	"kvd/pkg/ops/fault"
)

// exitCode is one row of the table in docs/exit-codes.md.
type exitCode struct {
	Code int
	Kind fault.Kind // empty for success
	Text string
}

// exitCodes is the whole table. Codes are a contract: scripts live on them.
func exitCodes() []exitCode {
	return []exitCode{
		{0, "", "done, and well"},
		{1, fault.Internal, "internal error: a defect in kvd"},
		{2, fault.Usage, "the call is wrong; nothing was sent"},
		{3, fault.Wanting, "judged, and found wanting"},
		{4, fault.Unavailable, "unavailable: no endpoint, no quorum, or a deadline passed"},
		{5, fault.Refused, "refused by a guard or not confirmed; nothing was changed"},
		{6, fault.Partial, "partial: some steps were done, or some of what was asked could not be read"},
		{7, fault.Damage, "damaged data stopped the command; file and offset are named"},
		{8, fault.Denied, "denied: authentication, certificate or role"},
		{9, fault.Inconclusive, "inconclusive"},
		{130, fault.Interrupted, "ended by a signal (143 for SIGTERM)"},
	}
}

// codeOf returns the exit code for err; signal is the number of the signal that
// ended the command, 0 for none.
func codeOf(err error, signal int) int {
	if err == nil {
		return 0
	}
	kind := fault.KindOf(err)
	if kind == fault.Interrupted && signal == int(syscall.SIGTERM) {
		return 128 + signal // any other: as for Ctrl-C
	}
	for _, e := range exitCodes() {
		if e.Kind == kind {
			return e.Code
		}
	}
	return 1
}

// exitStatus renders the EXIT STATUS section of a command's help: code 0, the
// codes that the command can give beside the common ones, and those.
func exitStatus(special ...int) string {
	want := map[int]bool{0: true, 1: true, 2: true, 130: true}
	for _, c := range special {
		want[c] = true
	}
	var b strings.Builder
	for _, e := range exitCodes() {
		if want[e.Code] {
			fmt.Fprintf(&b, "  %-4d %s\n", e.Code, e.Text)
		}
	}
	return b.String()
}
