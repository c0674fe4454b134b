package result

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
)

// Objective is what a run must keep to: "txn:p99<50ms", "errors<0.1%",
// "late_heartbeats==0".
type Objective struct {
	Text     string
	RPC      string // whose requests; empty: all
	Resource string
	Metric   string
	Relation string
	Bound    float64 // seconds, share, or a number, by the metric
	Share    bool    // the bound is a share of all requests
}

// Judged is an objective and what became of it.
type Judged struct {
	Objective string   `json:"objective"`
	Value     *float64 `json:"value,omitempty"` // in seconds, as a share, or a number
	Shown     string   `json:"shown,omitempty"`
	Verdict   string   `json:"verdict"`
	Why       string   `json:"why,omitempty"`
}

// The verdicts.
const (
	Kept    = "kept"
	Broken  = "broken"
	Unknown = "unknown" // the run does not say
)

// objectiveForm is [RPC [RESOURCE]:]METRIC RELATION BOUND.
const objectiveForm = `^\s*(?:([a-z_]+)(?:[ /]([a-z][a-z. ()]*))?:)?([a-z_][a-z0-9_.]*)\s*(<=|>=|==|<|>)\s*([0-9][0-9a-zµ.]*%?)\s*$`

// enoughForP999 is how many requests a percentile that only one in a thousand
// exceeds takes to mean anything.
const enoughForP999 = 10_000

// ParseObjectives reads objectives separated by commas. Its errors are of kind
// Usage.
func ParseObjectives(text string) ([]Objective, error) {
	form := regexp.MustCompile(objectiveForm)
	var out []Objective
	for _, term := range strings.Split(text, ",") {
		if strings.TrimSpace(term) == "" {
			continue
		}
		o, err := parseObjective(form, term)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func parseObjective(form *regexp.Regexp, term string) (Objective, error) {
	bad := func(why string) (Objective, error) {
		return Objective{}, &fault.Error{Kind: fault.Usage, Cause: "slo", Op: "--slo", Subject: strings.TrimSpace(term), Msg: why,
			Hint: "for example 'txn:p99<50ms,range pods:p99<1s,errors<0.1%,rate>=95,late_heartbeats==0'"}
	}
	m := form.FindStringSubmatch(term)
	if m == nil {
		return bad("want [REQUEST [RESOURCE]:]FIGURE, one of < <= > >= ==, and a bound")
	}
	o := Objective{Text: strings.TrimSpace(term), RPC: m[1], Resource: strings.TrimSpace(m[2]), Metric: m[3], Relation: m[4]}
	if o.isLatency() {
		d, err := time.ParseDuration(m[5])
		if err != nil {
			return bad(o.Metric + " is a time: the bound wants a unit, as in 50ms")
		}
		o.Bound = d.Seconds()
		return o, nil
	}
	bound, err := strconv.ParseFloat(strings.TrimSuffix(m[5], "%"), 64)
	if err != nil {
		return bad(o.Metric + " is a number: the bound is one, or a share in per cent")
	}
	if o.Share = strings.HasSuffix(m[5], "%"); o.Share {
		if o.Metric == "rate" || o.Metric == "requests" {
			return bad(o.Metric + " is no share of anything: the bound wants no %")
		}
		bound /= 100
	}
	o.Bound = bound
	return o, nil
}

// quantileOf returns the quantile that a figure's name stands for.
func quantileOf(metric string) (float64, bool) {
	switch metric {
	case "p50":
		return 0.5, true
	case "p90":
		return 0.9, true
	case "p99":
		return 0.99, true
	case "p999", "p99.9":
		return 0.999, true
	case "max":
		return 1, true
	}
	return 0, false
}

func (o Objective) isLatency() bool {
	_, ok := quantileOf(o.Metric)
	return ok || o.Metric == "mean"
}

func (o Objective) concerns(op Op) bool {
	return (o.RPC == "" || o.RPC == op.RPC) && (o.Resource == "" || o.Resource == op.Resource)
}

// Judge holds a run against its objectives. One whose generator reached its own
// limits is not judged at all.
func Judge(r *Run, objectives []Objective) []Judged {
	out := make([]Judged, 0, len(objectives))
	for _, o := range objectives {
		j := Judged{Objective: o.Text, Verdict: Unknown}
		if len(r.Totals.Limits) > 0 {
			j.Why = "the generator reached its own limits"
		} else if value, why := o.measure(r); why != "" {
			j.Why = why
		} else {
			j.Value, j.Shown, j.Verdict = &value, o.show(value), Broken
			if o.holds(value) {
				j.Verdict = Kept
			}
		}
		out = append(out, j)
	}
	return out
}

func (o Objective) holds(v float64) bool {
	switch o.Relation {
	case "<":
		return v < o.Bound
	case "<=":
		return v <= o.Bound
	case ">":
		return v > o.Bound
	case ">=":
		return v >= o.Bound
	}
	return v == o.Bound
}

func (o Objective) show(v float64) string {
	switch {
	case o.isLatency():
		return ShowValue(v, UnitSeconds)
	case o.Share:
		return strconv.FormatFloat(100*v, 'g', 4, 64) + " %"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// measure finds the figure, or says why there is none.
func (o Objective) measure(r *Run) (value float64, why string) {
	all := r.Count(o.concerns)
	if all == 0 && (o.RPC != "" || o.isLatency()) {
		return 0, "no such request was measured"
	}
	if o.Metric != "rate" && o.Metric != "requests" && o.Metric != "dropped" && r.Count(func(Op) bool { return true }) == 0 {
		return 0, "not one request was measured" // of which none was late, and none failed
	}
	if o.isLatency() {
		h := r.Latency(func(op Op) bool { return o.concerns(op) && op.Waited() }).Response
		q, _ := quantileOf(o.Metric)
		switch {
		case h.Count() == 0:
			return 0, "no such request got an answer"
		case q == 0.999 && h.Count() < enoughForP999:
			return 0, fmt.Sprintf("%d requests are too few for that, it takes %d", h.Count(), enoughForP999)
		case o.Metric == "mean":
			return h.Mean().Seconds(), ""
		}
		return h.Quantile(q).Seconds(), ""
	}
	of := func(keep func(Op) bool) float64 {
		return float64(r.Count(func(op Op) bool { return o.concerns(op) && keep(op) }))
	}
	var n float64
	switch o.Metric {
	case "rate":
		return of(Op.Done) / max(r.Totals.Measured, 1e-9), ""
	case "requests":
		return float64(all), ""
	case "errors":
		n = of(func(op Op) bool { return !op.Done() })
	case "conflicts":
		n = of(func(op Op) bool { return op.Outcome == Conflict })
	case "timeouts":
		n = of(func(op Op) bool { return op.Outcome == Timeout })
	case "dropped":
		n, all = float64(r.Totals.Dropped), r.Totals.Due
	default:
		count, ok := r.Totals.Counters[o.Metric]
		if !ok {
			return 0, "the scenario counts no such thing"
		}
		n = count
	}
	if o.Share {
		return n / float64(max(all, 1)), ""
	}
	return n, ""
}

// Err is what a run's verdicts mean to whoever ran it: nil, an error of kind
// Wanting where an objective was broken, Unavailable where the cluster was gone at
// the end, or Inconclusive where the run does not say, of itself or of an
// objective.
func Err(r *Run, judged []Judged) error {
	if len(r.Totals.Limits) > 0 {
		return &fault.Error{Kind: fault.Inconclusive, Cause: "generator_limit", Op: "loadgen",
			Msg:  "the figures are the generator's, not the server's: " + strings.Join(r.Totals.Limits, "; "),
			Hint: "run kvd loadgen on a machine of its own, on more processors, or ask for less"}
	}
	if r.Count(Op.Done) == 0 && r.Totals.Due > 0 && r.Totals.Stopped != StoppedFull && r.Totals.Deserted == "" {
		return noAnswer(r)
	}
	if off := r.wrongMix(); off != "" {
		return &fault.Error{Kind: fault.Inconclusive, Cause: "wrong_mix", Op: "loadgen", Msg: "this was not the load it should have been: " + off}
	}
	var broken, unknown []string
	for _, j := range judged {
		switch j.Verdict {
		case Broken:
			broken = append(broken, fmt.Sprintf("%s (%s)", j.Objective, j.Shown))
		case Unknown:
			unknown = append(unknown, fmt.Sprintf("%s (%s)", j.Objective, j.Why))
		}
	}
	gone := &fault.Error{Kind: fault.Unavailable, Cause: "deserted", Op: "loadgen",
		Msg:  "the cluster did not outlive the load: at the end nothing was answered, and " + r.Totals.Deserted,
		Hint: "see `kvd status`, and the members' logs"}
	switch {
	case len(broken) > 0:
		e := &fault.Error{Kind: fault.Wanting, Cause: "slo_broken", Op: "loadgen", Msg: "broken: " + strings.Join(broken, ", ")}
		if r.Totals.Deserted != "" {
			e.Msg, e.Hint = e.Msg+"; "+gone.Msg, gone.Hint
		}
		return e
	case r.Totals.Deserted != "":
		return gone
	case len(unknown) > 0:
		e := &fault.Error{Kind: fault.Inconclusive, Cause: "slo_unknown", Op: "loadgen", Msg: "not known: " + strings.Join(unknown, ", ")}
		if measured := r.measuredNames().list(); len(measured) > 0 {
			e.Hint = "this run has measured " + strings.Join(measured, ", ")
		}
		return e
	}
	return nil
}

// noAnswer is what a run means in which not one request did what it was to do, of a cluster
// that is there.
func noAnswer(r *Run) error {
	e := &fault.Error{Kind: fault.Unavailable, Cause: "no_answer", Op: "loadgen", Msg: "not one request was answered", Hint: "see `kvd status`"}
	if len(r.Totals.Causes) > 0 {
		c := r.Totals.Causes[0]
		e.Kind, e.Cause, e.Msg, e.Hint = fault.Wanting, c.Cause, "not one request did what it was to do: "+c.First, ""
	}
	return e
}
