package result

import (
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/fault"
)

// Names are those by which objectives may ask for something of a load.
type Names struct {
	Requests []Sent   `json:"requests"`
	Counters []string `json:"counters,omitempty"` // "late_heartbeats"
}

// Sent is a kind of request on a kind of object that a load sends, or something that
// is timed as one.
type Sent struct {
	RPC      string `json:"rpc"`
	Resource string `json:"resource,omitempty"`
	Only     string `json:"only,omitempty"` // when alone it is sent, "after a conflict"; empty: in every run that is long enough
}

func (s Sent) name() string { return Op{RPC: s.RPC, Resource: s.Resource}.Name() }

// Has reports that an Op is of a kind that is sent.
func (n Names) Has(op Op) bool {
	return slices.ContainsFunc(n.Requests, func(s Sent) bool { return s.RPC == op.RPC && s.Resource == op.Resource })
}

// IsZero reports that nothing is known of what may be asked for.
func (n Names) IsZero() bool { return len(n.Requests) == 0 && len(n.Counters) == 0 }

// CheckObjectives finds objectives on what there never is in such a run. Its errors are of
// kind Usage. Results of kvd before it kept the names say what was counted, and not what
// might have been sent: there an objective on a request that was not is left to Judge.
func (r *Run) CheckObjectives(objectives []Objective) error {
	names := r.Names
	if names.IsZero() {
		names = r.measuredNames()
		objectives = slices.DeleteFunc(slices.Clone(objectives), func(o Objective) bool { return o.RPC != "" && len(names.about(o)) == 0 })
	}
	return names.Check(objectives)
}

// measuredNames are those of what a run has counted.
func (r *Run) measuredNames() Names {
	var n Names
	for _, l := range r.Totals.Ops {
		if s := (Sent{RPC: l.RPC, Resource: l.Resource}); !slices.Contains(n.Requests, s) {
			n.Requests = append(n.Requests, s)
		}
	}
	for name := range r.Totals.Counters {
		n.Counters = append(n.Counters, name)
	}
	slices.Sort(n.Counters)
	return n
}

// With returns the names of both. What one of them sends always is sent always.
func (n Names) With(more Names) Names {
	out := Names{Requests: slices.Clone(n.Requests), Counters: slices.Clone(n.Counters)}
	for _, s := range more.Requests {
		i := slices.IndexFunc(out.Requests, func(have Sent) bool { return have.RPC == s.RPC && have.Resource == s.Resource })
		switch {
		case i < 0:
			out.Requests = append(out.Requests, s)
		case s.Only == "":
			out.Requests[i].Only = ""
		}
	}
	for _, c := range more.Counters {
		if !slices.Contains(out.Counters, c) {
			out.Counters = append(out.Counters, c)
		}
	}
	return out
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
				Hint: "with these flags it has " + strings.Join(known, ", ")}
		}
		if o.RPC != "" && len(n.about(o)) == 0 {
			return bad("request", Op{RPC: o.RPC, Resource: o.Resource}.Name(), n.list())
		}
		if known := append(figures(), n.Counters...); !o.isLatency() && !slices.Contains(known, o.Metric) {
			return bad("figure", o.Metric, known)
		}
	}
	return nil
}

// Doubtful says of which objectives a run may well not tell, since what they are about
// is sent in some runs only.
func (n Names) Doubtful(objectives []Objective) []string {
	var out []string
	for _, o := range objectives {
		about := n.about(o)
		if o.RPC == "" || len(about) == 0 || slices.ContainsFunc(about, func(s Sent) bool { return s.Only == "" }) {
			continue
		}
		out = append(out, fmt.Sprintf("%s: this load sends %s only %s; a run without one does not tell", o.Text, about[0].name(), about[0].Only))
	}
	return out
}

// about are the requests that an objective concerns.
func (n Names) about(o Objective) (out []Sent) {
	for _, s := range n.Requests {
		if o.concerns(Op{RPC: s.RPC, Resource: s.Resource}) {
			out = append(out, s)
		}
	}
	return out
}

func (n Names) list() []string {
	out := make([]string, len(n.Requests))
	for i, s := range n.Requests {
		if out[i] = s.name(); s.Only != "" {
			out[i] += " (only " + s.Only + ")"
		}
	}
	slices.Sort(out)
	return out
}
