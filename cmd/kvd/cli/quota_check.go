package cli

import (
	"fmt"
	"time"

	"kvd/pkg/ops/fault"
)

// leastWatch is the shortest interval in which there is anything new to see:
// etcd's defaultBatchInterval (server/storage/backend/backend.go).
const leastWatch = 100 * time.Millisecond

// check finds flags that make no sense together, before anything is sent.
func (o quotaOptions) check() error {
	usage := func(msg string) error { return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "quota", Msg: msg} }
	switch {
	case o.watch < 0 || o.watch > 0 && o.watch < leastWatch:
		return usage(fmt.Sprintf("--watch %s: want %s or more, since a member's sizes change when it commits its backend, 10 times a second", o.watch, leastWatch))
	case o.top < 0:
		return usage("--top can't be negative")
	case !(o.WarnAt > 0 && o.WarnAt <= 1): // which a NaN is not either
		return usage(fmt.Sprintf("--warn-at %g is not a share: want more than 0, at most 1", o.WarnAt))
	case o.sample <= 0:
		return usage("--sample needs a size; --members-only reads nothing")
	case o.members && (o.Look.Exact || o.Look.Prefix != ""):
		return usage("--members-only and --exact or --prefix exclude each other")
	case o.watch > 0 && (o.Look.Exact || o.Look.Prefix != "" || o.exitCode):
		return usage("--watch looks at sizes only: no --exact, --prefix or --exit-code with it")
	}
	return nil
}
