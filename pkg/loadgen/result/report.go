package result

import "slices"

// Report is a run as people and programs read it: no histograms, but what they
// say.
type Report struct {
	Header
	Measured   float64            `json:"measured_seconds"`
	Stopped    string             `json:"stopped,omitempty"`
	Deserted   string             `json:"deserted,omitempty"` // as in Totals
	Offered    Offered            `json:"offered"`
	Requests   []Request          `json:"requests"`
	Counters   map[string]float64 `json:"counters,omitempty"`
	Causes     []Cause            `json:"error_causes,omitempty"`
	Servers    []MemberTotals     `json:"servers,omitempty"`
	Generator  Generator          `json:"generator"`
	Events     []Event            `json:"events,omitempty"`
	Trends     []Trend            `json:"trends,omitempty"`
	Mix        []Mixed            `json:"mix,omitempty"`
	Full       *Full              `json:"quota_reached,omitempty"`
	PerByte    *PerByte           `json:"per_byte_written,omitempty"`
	Objectives []Judged           `json:"objectives,omitempty"`
	Charts     []Chart            `json:"charts,omitempty"`
}

// Offered is how much of the schedule was carried out.
type Offered struct {
	Due     int64   `json:"due"`
	Sent    int64   `json:"sent"`
	Dropped int64   `json:"dropped"`
	Rate    float64 `json:"due_per_second"`
}

// Request is one kind of request with one outcome. Response times run from when it
// was due, service times from when it was sent.
type Request struct {
	Op
	Count   int64    `json:"count"`
	Rate    float64  `json:"per_second"`
	Bytes   int64    `json:"bytes"`
	P50     float64  `json:"response_p50_seconds"`
	P90     float64  `json:"response_p90_seconds"`
	P99     float64  `json:"response_p99_seconds"`
	P999    *float64 `json:"response_p999_seconds,omitempty"` // of 10,000 requests or more
	Max     float64  `json:"response_max_seconds"`
	Service float64  `json:"service_p99_seconds"`
}

// Generator is what the generator itself needed.
type Generator struct {
	CPU    float64  `json:"cpu"` // share of the processors it may use
	LagP99 float64  `json:"dispatch_lag_p99_seconds"`
	LagMax float64  `json:"dispatch_lag_max_seconds"`
	Memory int64    `json:"memory_bytes"`
	Limits []string `json:"limits,omitempty"`
}

// Full is how the quota was reached. Refused writes are not among the written.
type Full struct {
	At      float64 `json:"at_seconds"`
	Writes  int64   `json:"writes_before"`
	Bytes   int64   `json:"bytes_before"`
	Refused int64   `json:"refused"`
	Words   string  `json:"first_refusal"`
}

// PerByte is what the members did for each byte of key and value that the load
// wrote, all members together.
type PerByte struct {
	Log   float64 `json:"log_bytes"`
	Peers float64 `json:"peer_bytes"`
}

// NewReport makes a report of a run, with its charts if asked.
func NewReport(r *Run, judged []Judged, charts bool) Report {
	t := &r.Totals
	seconds := max(t.Measured, 1e-9)
	rep := Report{
		Header: r.Header, Measured: t.Measured, Stopped: t.Stopped, Deserted: t.Deserted, Counters: t.Counters, Causes: t.Causes, Servers: t.Servers,
		Offered:    Offered{Due: t.Due, Sent: t.Sent, Dropped: t.Dropped, Rate: float64(t.Due) / seconds},
		Generator:  Generator{CPU: t.CPU, LagP99: t.Lag.Quantile(0.99).Seconds(), LagMax: t.Lag.Max().Seconds(), Memory: t.Memory, Limits: t.Limits},
		Events:     r.Events,
		Trends:     Trends(r),
		Mix:        Mix(r),
		Objectives: judged,
		Full:       r.full(),
		Requests:   []Request{},
	}
	var logical, wal, peers float64
	for _, l := range t.Ops {
		q := Request{Op: l.Op, Count: l.Response.Count(), Bytes: l.Bytes,
			P50: l.Response.Quantile(0.5).Seconds(), P90: l.Response.Quantile(0.9).Seconds(), P99: l.Response.Quantile(0.99).Seconds(),
			Max: l.Response.Max().Seconds(), Service: l.Service.Quantile(0.99).Seconds()}
		q.Rate = float64(q.Count) / seconds
		if q.Count >= enoughForP999 {
			p := l.Response.Quantile(0.999).Seconds()
			q.P999 = &p
		}
		rep.Requests = append(rep.Requests, q)
		if l.RPC == "txn" {
			logical += float64(l.Bytes)
		}
	}
	for _, s := range t.Servers {
		wal, peers = wal+s.WALBytes, peers+s.PeerBytes
	}
	if logical > 0 && len(t.Servers) > 0 {
		rep.PerByte = &PerByte{Log: wal / logical, Peers: peers / logical}
	}
	if charts {
		rep.Charts = Charts(r)
	}
	return rep
}

// full sums up how the quota was reached, nil where it was not.
func (r *Run) full() *Full {
	i := slices.IndexFunc(r.Events, func(e Event) bool { return e.What == "nospace" })
	if i < 0 {
		return nil
	}
	f := &Full{At: r.Events[i].At, Words: r.Events[i].Text}
	for _, row := range r.Rows {
		for _, l := range row.Ops {
			switch {
			case l.RPC == "txn" && l.Outcome == OK:
				f.Writes += l.Response.Count()
				f.Bytes += l.Bytes
			case l.Outcome == NoSpace:
				f.Refused += l.Response.Count()
			}
		}
	}
	return f
}
