package result

import (
	"cmp"
	"slices"
	"time"
)

// The outcomes of a request.
const (
	OK         = "ok"
	Conflict   = "conflict"   // the server did what was asked, and the condition of the transaction was not met
	Timeout    = "timeout"    // etcd's own verdict "request timed out", or no answer in our time
	NoSpace    = "nospace"    // refused because the quota is reached: no throughput
	Failed     = "error"      // anything else
	Unfinished = "unfinished" // still waiting when the run ended
)

// Op is what is counted apart: a kind of request on a kind of object that ended
// in one way.
type Op struct {
	RPC      string `json:"rpc"`                // "txn", "range", "lease_grant", …
	Resource string `json:"resource,omitempty"` // "leases", "nodes", …
	Outcome  string `json:"outcome"`
}

// Name is what people call it, without the outcome: "txn leases".
func (o Op) Name() string {
	if o.Resource == "" {
		return o.RPC
	}
	return o.RPC + " " + o.Resource
}

// CompareOps orders by request, object and outcome.
func CompareOps(a, b Op) int {
	return cmp.Or(cmp.Compare(a.RPC, b.RPC), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Outcome, b.Outcome))
}

// Latencies are those of one Op. Response runs from the moment at which the
// request was due, Service from the one at which it was sent: what the first is
// longer is time spent waiting to be sent.
type Latencies struct {
	Op
	Bytes    int64     `json:"bytes"` // keys and values that were written, or that came back
	Response Histogram `json:"response_hdr"`
	Service  Histogram `json:"service_hdr,omitzero"` // rows have none
}

// IsZero reports that nothing was recorded, so that JSON leaves it out.
func (h Histogram) IsZero() bool { return h.Count() == 0 }

// Row is what happened in one second, or in more where a run was so long that
// rows were joined.
type Row struct {
	At      float64     `json:"at_seconds"` // since the run began
	Span    float64     `json:"span_seconds"`
	Warmup  bool        `json:"warmup,omitempty"`
	Due     int64       `json:"due"`     // turns that the schedule had in it
	Sent    int64       `json:"sent"`    // of which this many were begun
	Dropped int64       `json:"dropped"` // and this many left out, since too many were waiting
	Waiting int64       `json:"waiting"` // turns begun or waiting at its end
	CPU     float64     `json:"generator_cpu"`
	Memory  int64       `json:"generator_memory_bytes"`
	Lag     float64     `json:"dispatch_lag_p99_seconds"`
	Ops     []Latencies `json:"ops,omitempty"`
	Members []MemberRow `json:"members,omitempty"`
}

// MemberRow is what a member's metrics said at the end of a row, and its work since
// the row before.
type MemberRow struct {
	Name       string  `json:"name"`
	Leader     bool    `json:"leader,omitempty"`
	DBSize     int64   `json:"db_size_bytes"`
	DBInUse    int64   `json:"db_in_use_bytes"`
	Memory     int64   `json:"resident_memory_bytes"`
	Pending    float64 `json:"proposals_pending"`
	Defragging bool    `json:"defragmenting,omitempty"`
	Work
}

// Event is something that divides a run: the quota reached, a new leader, a
// compaction, a defragmentation.
type Event struct {
	At   float64 `json:"at_seconds"`
	What string  `json:"what"` // "nospace", "leader_change", "compaction", "defrag", …
	Text string  `json:"text,omitempty"`
}

// Cause is why requests failed.
type Cause struct {
	Cause string `json:"cause"` // as in kvd's errors: "request_too_large"
	Count int64  `json:"count"`
	First string `json:"first"` // the first one's message
}

// Member is one member of the cluster as it was when the run began.
type Member struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Version string `json:"version"`
	Quota   int64  `json:"quota_bytes,omitempty"` // where its status or its metrics say it
	Role    string `json:"role"`
	Loaded  bool   `json:"loaded"` // requests went to it
}

// Header says what was run, and on what.
type Header struct {
	Format       int            `json:"kvd_loadgen"` // of this file: 1
	Kvd          string         `json:"kvd_version,omitempty"`
	Scenario     string         `json:"scenario"`
	Variant      string         `json:"variant,omitempty"` // which arm of an A/B run
	Params       map[string]any `json:"params"`
	Prefix       string         `json:"prefix"`
	Seed         uint64         `json:"seed"`
	Schedule     string         `json:"schedule_hash"` // equal for equal arrivals
	Actors       int            `json:"actors"`
	Connections  int            `json:"connections"`
	Policy       string         `json:"endpoints_policy"`
	TimeScale    float64        `json:"time_scale"`
	Options      Options        `json:"options,omitzero"`
	StartedAt    time.Time      `json:"started_at"`
	SetupSeconds float64        `json:"setup_seconds"`
	Warmup       float64        `json:"warmup_seconds"`
	Cluster      string         `json:"cluster_id,omitempty"`
	Members      []Member       `json:"members,omitempty"`
	Expected     []Expected     `json:"expected,omitempty"` // how often what should be sent
	Names        Names          `json:"names,omitzero"`     // what objectives may ask for
}

// Options are those of every scenario that have no place of their own in the Header:
// two runs in which they differ were not the same load.
type Options struct {
	APIServers     int     `json:"apiservers"`
	Resources      int     `json:"resources"`
	Values         string  `json:"value_mode"` // "k8s", "encrypted", "random"
	Arrival        string  `json:"arrival"`    // "open", "kubelet"
	Ramp           float64 `json:"ramp_seconds,omitempty"`
	Shard          string  `json:"shard,omitempty"` // "2/4": which part of the load
	MaxInFlight    int     `json:"max_in_flight"`
	RequestTimeout float64 `json:"request_timeout_seconds"`
	Templates      string  `json:"templates_hash"` // of the objects that values are made from
}

// Why a run ended before its time.
const (
	StoppedFull    = "nospace"     // the first write was refused for want of space
	StoppedAtUsage = "quota_guard" // a member was at as much of its quota as was allowed
	StoppedByHand  = "by_hand"
	StoppedFailed  = "failed" // a part of the scenario failed
)

// StoppedText says for people why a run ended before its time; "" for one that did not.
func StoppedText(why string) string {
	switch why {
	case StoppedFull:
		return "the quota was reached"
	case StoppedAtUsage:
		return "as much of the quota was used as was allowed"
	case StoppedByHand:
		return "it was stopped by hand"
	case StoppedFailed:
		return "a part of it failed"
	}
	return why
}

// Totals are the sums over what was measured: everything after the warm-up.
type Totals struct {
	Measured float64            `json:"measured_seconds"`
	Stopped  string             `json:"stopped,omitempty"` // why it ended before its time: StoppedFull, …
	Due      int64              `json:"due"`
	Sent     int64              `json:"sent"`
	Dropped  int64              `json:"dropped"`
	Ops      []Latencies        `json:"ops"`
	Counters map[string]float64 `json:"counters,omitempty"` // what the scenario counts: "late_heartbeats"
	Causes   []Cause            `json:"error_causes,omitempty"`
	Lag      Histogram          `json:"dispatch_lag_hdr"`
	CPU      float64            `json:"generator_cpu"` // mean share of the processors it may use
	Memory   int64              `json:"generator_memory_bytes"`
	Servers  []MemberTotals     `json:"servers,omitempty"`
	Limits   []string           `json:"generator_limits,omitempty"` // why this says nothing of the server
	Deserted string             `json:"deserted,omitempty"`         // at the end nothing was answered and no member led: who was silent
}

// MemberTotals are one member's own figures over what was measured.
type MemberTotals struct {
	Name        string `json:"name"`
	DBBefore    int64  `json:"db_size_before_bytes"`
	DBAfter     int64  `json:"db_size_after_bytes"`
	InUseBefore int64  `json:"db_in_use_before_bytes"`
	InUseAfter  int64  `json:"db_in_use_after_bytes"`
	MemoryPeak  int64  `json:"resident_memory_peak_bytes"`
	Work
}

// Run is the result of one run, or of several generators' together.
type Run struct {
	Header
	Rows   []Row
	Events []Event
	Totals Totals
}

// Latency adds up the latencies of the measured requests for which keep is true,
// with how many of them there were by outcome.
func (r *Run) Latency(keep func(Op) bool) Latencies {
	var sum Latencies
	for _, l := range r.Totals.Ops {
		if keep(l.Op) {
			sum.Bytes += l.Bytes
			sum.Response.Add(l.Response)
			sum.Service.Add(l.Service)
		}
	}
	return sum
}

// Responses are the response times of all that was waited for.
func (t *Totals) Responses() Histogram {
	var all Histogram
	for _, l := range t.Ops {
		if l.Waited() {
			all.Add(l.Response)
		}
	}
	return all
}

// Count returns how many measured requests keep is true for.
func (r *Run) Count(keep func(Op) bool) int64 {
	var n int64
	for _, l := range r.Totals.Ops {
		if keep(l.Op) {
			n += l.Response.Count()
		}
	}
	return n
}

// Waited reports whether a request says something of how long one waits for an
// answer. One that is refused at once does not.
func (o Op) Waited() bool {
	switch o.Outcome {
	case OK, Conflict, Timeout, Unfinished:
		return true
	}
	return false
}

// Done reports whether the server did what was asked, as far as its condition
// allowed.
func (o Op) Done() bool { return o.Outcome == OK || o.Outcome == Conflict }

// addOps adds latencies to those of the same Op.
func addOps(to []Latencies, from []Latencies) []Latencies {
	for _, l := range from {
		i, found := slices.BinarySearchFunc(to, l.Op, func(a Latencies, op Op) int { return CompareOps(a.Op, op) })
		if !found {
			to = slices.Insert(to, i, Latencies{Op: l.Op})
		}
		to[i].Bytes += l.Bytes
		to[i].Response.Add(l.Response)
		to[i].Service.Add(l.Service)
	}
	return to
}

// Format is the version of the form in which runs are kept.
const Format = 1
