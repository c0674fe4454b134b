package result

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"kvd/pkg/ops/fault"
)

// record is one line of a file of runs: a run is a header, rows, events and totals,
// and a file holds any number of them.
type record struct {
	Header *Header `json:"header,omitempty"`
	Row    *Row    `json:"row,omitempty"`
	Event  *Event  `json:"event,omitempty"`
	Totals *Totals `json:"totals,omitempty"`
}

// latenciesJSON is how Latencies are written: the histogram, and for people with
// jq what is asked for most.
type latenciesJSON struct {
	Op
	Count    int64     `json:"count"`
	Bytes    int64     `json:"bytes"`
	P50      float64   `json:"p50_seconds"`
	P99      float64   `json:"p99_seconds"`
	Max      float64   `json:"max_seconds"`
	Response Histogram `json:"response_hdr"`
	Service  Histogram `json:"service_hdr,omitzero"`
}

// MarshalJSON adds count, percentiles and maximum of the response time.
func (l Latencies) MarshalJSON() ([]byte, error) {
	return json.Marshal(latenciesJSON{
		Op: l.Op, Count: l.Response.Count(), Bytes: l.Bytes,
		P50: l.Response.Quantile(0.5).Seconds(), P99: l.Response.Quantile(0.99).Seconds(), Max: l.Response.Max().Seconds(),
		Response: l.Response, Service: l.Service,
	})
}

// UnmarshalJSON reads what MarshalJSON writes; the histogram is what counts.
func (l *Latencies) UnmarshalJSON(b []byte) error {
	var j latenciesJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*l = Latencies{Op: j.Op, Bytes: j.Bytes, Response: j.Response, Service: j.Service}
	return nil
}

// Write writes a run as JSON Lines.
func Write(w io.Writer, r *Run) error {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	lines := []record{{Header: &r.Header}}
	for i := range r.Rows {
		lines = append(lines, record{Row: &r.Rows[i]})
	}
	for i := range r.Events {
		lines = append(lines, record{Event: &r.Events[i]})
	}
	for _, l := range append(lines, record{Totals: &r.Totals}) {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return buf.Flush()
}

// Read reads all runs of a file. What is not one is an error that says where, of
// kind Usage; a run that breaks off before its totals is one too.
func Read(r io.Reader, name string) ([]*Run, error) {
	bad := func(n int, err error, msg string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "not_a_result", Op: "read result", Subject: fmt.Sprintf("%s, line %d", name, n), Err: err, Msg: msg,
			Hint: "give a file that kvd loadgen wrote with --out"}
	}
	dec := json.NewDecoder(r)
	var runs []*Run
	var at *Run
	for n := 1; ; n++ {
		var l record
		err := dec.Decode(&l)
		switch {
		case errors.Is(err, io.EOF) && at != nil:
			return nil, bad(n, nil, "the run has no totals: the file was cut short")
		case errors.Is(err, io.EOF) && len(runs) == 0:
			return nil, bad(n, nil, "there is no run in it")
		case errors.Is(err, io.EOF):
			return runs, nil
		case err != nil:
			return nil, bad(n, err, "")
		case l.Header != nil && (at != nil || l.Header.Format != Format):
			return nil, bad(n, nil, fmt.Sprintf("a header of form %d was not expected here", l.Header.Format))
		case l.Header != nil:
			at = &Run{Header: *l.Header}
		case at == nil:
			return nil, bad(n, nil, "a run begins with its header")
		case l.Row != nil:
			at.Rows = AppendRow(at.Rows, *l.Row)
		case l.Event != nil:
			at.Events = append(at.Events, *l.Event)
		case l.Totals != nil:
			at.Totals = *l.Totals
			runs, at = append(runs, at), nil
		}
	}
}
