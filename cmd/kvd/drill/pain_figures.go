package drill

import (
	"fmt"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen/result"
)

// Figure is one number of both loads.
type Figure struct {
	What     string        `json:"what"`
	Unit     diagnose.Unit `json:"unit"`
	From     string        `json:"from"` // who says so: the generator, or a metric of the members
	Pain     float64       `json:"pain"`
	Remedied float64       `json:"remedied"`
	Times    float64       `json:"times"` // the pain's, of the remedied; 0 where that is 0
	// Bounds of Times. 0: none; without any the figure is shown and not judged.
	AtLeast float64 `json:"at_least,omitempty"`
	AtMost  float64 `json:"at_most,omitempty"`
	Verdict string  `json:"verdict"` // FigureKept, FigureBroken or FigureShown

	waiting [2]float64 // requests without an answer when the loads ended: they may be what one number lacks
}

// Verdicts of figures.
const (
	FigureKept   = "kept"
	FigureBroken = "broken"
	FigureShown  = "shown"
)

// Judge sets Times and the verdict, and says what is missing.
func (f *Figure) Judge() string {
	if f.Remedied != 0 {
		f.Times = f.Pain / f.Remedied
	}
	f.Verdict = FigureShown
	if f.AtLeast == 0 && f.AtMost == 0 {
		return ""
	}
	f.Verdict = FigureKept
	more := f.Remedied == 0 && f.Pain > 0 // endlessly many times
	if (f.Times >= f.AtLeast || more) && (f.AtMost == 0 || f.Times <= f.AtMost && !more) && (f.Times > 0 || more) {
		return ""
	}
	f.Verdict = FigureBroken
	return fmt.Sprintf("%s: %s before and %s after, which is %.2f times; want %s", f.What, f.Unit.Show(f.Pain), f.Unit.Show(f.Remedied), f.Times, f.Want())
}

// Want is what Times is to be.
func (f Figure) Want() string {
	switch {
	case f.AtLeast > 0 && f.AtMost > 0:
		return fmt.Sprintf("%.3g to %.3g", f.AtLeast, f.AtMost)
	case f.AtLeast > 0:
		return fmt.Sprintf("%.3g or more", f.AtLeast)
	case f.AtMost > 0:
		return fmt.Sprintf("%.3g or less", f.AtMost)
	}
	return ""
}

// figure takes a number of both runs.
func figure(what string, unit diagnose.Unit, from string, pain, remedied PainRun, of func(result.Report) float64) Figure {
	return Figure{What: what, Unit: unit, From: from, Pain: of(pain.Load), Remedied: of(remedied.Load)}
}

// atLeast has the pain's number be so many times the remedied one's.
func (f Figure) atLeast(times float64) Figure { f.AtLeast = times; return f }

// sameWork has both loads have done about the same, which both were to do.
func (f Figure) sameWork(pain, remedied PainRun) Figure {
	f.waiting = [2]float64{unanswered(pain.Load), unanswered(remedied.Load)}
	return f.between(0.9, 1.1)
}

// unanswered counts the requests that had no answer, or no answer in time, when a load
// ended. Events that did not come are none: they are nobody's work.
func unanswered(r result.Report) float64 {
	n := int64(0)
	for _, q := range r.Requests {
		if (q.Outcome == result.Unfinished || q.Outcome == result.Timeout) && q.RPC != "watch_event" {
			n += q.Count
		}
	}
	return float64(n)
}

// tooSlow reports that a figure of work done lacks no more than was still waited for: the
// member was too slow for the load, which says nothing of the remedy.
func (f Figure) tooSlow() bool {
	return f.waiting[0]+f.waiting[1] > 0 && f.Pain+f.waiting[0] >= f.AtLeast*f.Remedied && f.AtMost*(f.Remedied+f.waiting[1]) >= f.Pain
}

// between has the numbers be about the same.
func (f Figure) between(least, most float64) Figure { f.AtLeast, f.AtMost = least, most; return f }

// Who says a number.
const (
	fromGenerator = "the load"
	fromLog       = "etcd_disk_wal_write_bytes_total"
	fromStore     = "etcd_debugging_mvcc_total_put_size_in_bytes"
	fromPeers     = "etcd_network_peer_sent_bytes_total"
	fromClients   = "etcd_network_client_grpc_sent_bytes_total"
	fromMemory    = "process_resident_memory_bytes"
	fromCPU       = "process_cpu_seconds_total"
	fromInUse     = "etcd_mvcc_db_total_size_in_use_in_bytes"
)

// requests counts those of a kind that were answered; an empty name is any.
func requests(r result.Report, rpc, resource string) float64 {
	n := int64(0)
	for _, q := range r.Requests {
		if q.Done() && (rpc == "" || q.RPC == rpc) && (resource == "" || q.Resource == resource) {
			n += q.Count
		}
	}
	return float64(n)
}

// writtenBytes are the keys and values that the load has written.
func writtenBytes(r result.Report) float64 { return bytesOf(r, "") }

// bytesOf are those of a resource.
func bytesOf(r result.Report, resource string) float64 {
	n := int64(0)
	for _, q := range r.Requests {
		if q.RPC == "txn" && q.Outcome == result.OK && (resource == "" || q.Resource == resource) {
			n += q.Bytes
		}
	}
	return float64(n)
}

// summed adds up a number of the members.
func summed(r result.Report, of func(result.MemberTotals) float64) float64 {
	n := 0.0
	for _, m := range r.Servers {
		n += of(m)
	}
	return n
}

// most is the largest of the members' numbers.
func most(r result.Report, of func(result.MemberTotals) float64) float64 {
	n := 0.0
	for _, m := range r.Servers {
		n = max(n, of(m))
	}
	return n
}

// asWritten is how many times fewer bytes the remedied load has written for each of
// what per counts. What the members count is held against it: they write what they are
// told, and what else the load does, heartbeats mostly, is in both.
func asWritten(pain, remedied PainRun, per func(result.Report) float64) float64 {
	return writtenBytes(pain.Load) / max(per(pain.Load), 1) / max(writtenBytes(remedied.Load)/max(per(remedied.Load), 1), 1)
}

// What the members count: each is put the same, and has a log of its own.
func stored(r result.Report) float64 {
	return most(r, func(m result.MemberTotals) float64 { return m.PutBytes })
}

func toLogs(r result.Report) float64 {
	return summed(r, func(m result.MemberTotals) float64 { return m.WALBytes })
}

func toPeers(r result.Report) float64 {
	return summed(r, func(m result.MemberTotals) float64 { return m.PeerBytes })
}

func toClients(r result.Report) float64 {
	return summed(r, func(m result.MemberTotals) float64 { return m.ClientBytes })
}

func grown(r result.Report) float64 {
	return most(r, func(m result.MemberTotals) float64 { return float64(m.InUseAfter - m.InUseBefore) })
}

// p99Of is the p99 response time of a kind of request, in seconds.
func p99Of(rpc, resource string) func(result.Report) float64 {
	return func(r result.Report) float64 {
		for _, q := range r.Requests {
			if q.Outcome == result.OK && q.RPC == rpc && q.Resource == resource {
				return q.P99
			}
		}
		return 0
	}
}
