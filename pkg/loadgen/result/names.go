package result

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/fault"
)

// Names are those by which objectives may ask for something of a load.
type Names struct {
	Requests []string // "txn", "range"
	Counters []string // "late_heartbeats"
}

// figures are those of every load, beside its counters.
func figures() []string {
	return []string{"p50", "p90", "p99", "p999", "max", "mean", "rate", "requests", "errors", "conflicts", "timeouts", "dropped"}
}

// Check finds objectives on what there never is in a load. Its errors are of kind Usage.
func (n Names) Check(objectives []Objective) error {
	for _, o := range objectives {
		bad := func(what, name string, known []string) error {
			return &fault.Error{Kind: fault.Usage, Cause: "slo", Op: "--slo", Subject: o.Text, Msg: fmt.Sprintf("this load has no %s %q", what, name),
				Hint: "it has " + strings.Join(known, ", ")}
		}
		if o.RPC != "" && !slices.Contains(n.Requests, o.RPC) {
			return bad("request", o.RPC, n.Requests)
		}
		if known := append(figures(), n.Counters...); !o.isLatency() && !slices.Contains(known, o.Metric) {
			return bad("figure", o.Metric, known)
		}
	}
	return nil
}
