package diagnose

import (
	"fmt"
	"slices"

	"kvd/pkg/ops/metrics"
)

// checkExpensive counts requests that took longer than --warning-apply-duration:
// applies, and reads as well (warnOfExpensiveGenericRequest in
// server/etcdserver/txn/util.go). Where the disk is slow they follow from that.
func checkExpensive() Check {
	return Check{
		Name: "requests", Asks: "are requests quick to serve?", IDs: []string{"KVD-READ-001", "KVD-READ-003"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			most, who := 0.0, ""
			var out []Finding
			for _, d := range in.deltas() {
				n, ok := d.Counter("etcd_server_slow_apply_total", nil)
				rate := n / max(1, d.Elapsed().Seconds())
				if !ok {
					continue
				}
				if rate >= most {
					most, who = rate, name(d.Member)
				}
				if rate < in.Limits.SlowApplies {
					continue
				}
				f := Finding{ID: "KVD-READ-001", Severity: Warning, Subject: name(d.Member),
					Summary:  fmt.Sprintf("%s serves expensive requests: %.0f took longer than 100 ms in %s", name(d.Member), n, Seconds.Show(d.Elapsed().Seconds())),
					Evidence: append([]Evidence{d.evidence("slow requests", n, Count)}, requestEvidence(d)...),
					Remedy: []string{"kvd keys usage  # find full lists and large values; \"apply request took too long\" in the log of " + name(d.Member) + " has them too",
						"page lists (limit), read serializable where old data will do, store large values elsewhere"}}
				switch {
				case in.slow(metrics.WALFsync, d.Member):
					f.ExplainedBy = append(f.ExplainedBy, "KVD-DISK-001")
				case in.slow(metrics.BackendCommit, d.Member):
					f.ExplainedBy = append(f.ExplainedBy, "KVD-DISK-002")
				case waited(d, n):
					f = waiting(f, d, n)
				case slices.ContainsFunc(in.latencies(metrics.WALFsync), func(l latency) bool { return l.d.Member.ID == d.Member.ID }):
					f.Summary += "; its disk is not why"
				default: // too few writes to tell of its disk
					f.Remedy = slices.Insert(f.Remedy, 0, "kvd diagnose --interval 1m  # whether its disk is why: too few writes were seen to tell")
				}
				out = append(out, f)
			}
			if who == "" {
				return out, ""
			}
			return out, fmt.Sprintf("%.1f/s took longer than 100 ms at %s, the most", most, who)
		},
	}
}

// waited reports that most slow requests were quick to serve: their time is counted
// from when they came in, until a leader confirms, a turn comes, a processor is free.
// Servers before 3.6 do not tell how long serving took.
func waited(d memberDelta, slow float64) bool {
	const ranges, applies = "etcd_server_range_duration_seconds", "etcd_server_apply_duration_seconds"
	r, ok := d.Histogram(ranges, nil)
	if !ok {
		return false
	}
	a, _ := d.Histogram(applies, nil)
	served := float64(r.Count-quick(r, slowRequest)) + float64(a.Count-quick(a, slowRequest))
	return served < slow/2
}

// slowRequest is etcd's default --warning-apply-duration, in seconds.
const slowRequest = 0.1

func waiting(f Finding, d memberDelta, n float64) Finding {
	f.ID, f.Severity = "KVD-READ-003", Info
	f.Summary = fmt.Sprintf("requests to %s wait: %.0f took longer than 100 ms in %s, and were quick to serve", name(d.Member), n, Seconds.Show(d.Elapsed().Seconds()))
	f.Remedy = []string{"see whether its machine has processor time left for etcd, and what else runs there", "kvd diagnose --interval 1m  # KVD-NET-003 and KVD-RAFT-003 tell of a leader that answers late"}
	f.ExplainedBy = []string{"KVD-NET-003", "KVD-RAFT-003"}
	return f
}

// requestEvidence is what else the metrics say of the requests.
func requestEvidence(d memberDelta) []Evidence {
	var out []Evidence
	for _, h := range []struct{ name, what string }{
		{"etcd_server_range_duration_seconds", "p99 of ranges"}, {"etcd_server_apply_duration_seconds", "p99 of applies"}, {metrics.WALFsync, "p99 of WAL fsync"},
	} {
		if got, ok := d.Histogram(h.name, nil); ok && got.Count > 0 {
			out = append(out, d.evidence(h.what, got.Quantile(0.99), Seconds))
		}
	}
	if n, ok := d.To.Value(metrics.ProposalsPending, nil); ok {
		out = append(out, sampled(d.Member, d.To, "proposals pending", n, Count))
	}
	if r, ok := d.Rate("etcd_network_client_grpc_sent_bytes_total", nil); ok {
		out = append(out, d.evidence("bytes sent to clients each second", r, Bytes))
	}
	return out
}

// checkReadIndex counts linearizable reads that waited too long for the leader's
// word (server/etcdserver/read/read.go).
func checkReadIndex() Check {
	return Check{
		Name: "read indexes", Asks: "do linearizable reads get through?", IDs: []string{"KVD-READ-002"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			for _, d := range in.deltas() {
				late, okA := d.Counter("etcd_server_slow_read_indexes_total", nil)
				failed, okB := d.Counter("etcd_server_read_indexes_failed_total", nil)
				if !okA && !okB || late+failed < in.Limits.ReadIndexes {
					continue
				}
				out = append(out, Finding{ID: "KVD-READ-002", Severity: Warning, Subject: name(d.Member),
					Summary:     fmt.Sprintf("linearizable reads through %s are late or fail: %.0f late, %.0f failed between the samples", name(d.Member), late, failed),
					Evidence:    []Evidence{d.evidence("slow read indexes", late, Count), d.evidence("failed read indexes", failed, Count)},
					Remedy:      []string{"see whether " + name(d.Member) + " reaches the leader, and how busy that is", "kvd status"},
					ExplainedBy: []string{"KVD-RAFT-001", "KVD-RAFT-002", "KVD-RAFT-003", "KVD-NET-003", "KVD-DISK-001"}})
			}
			return out, "none late, none failed"
		},
	}
}

// checkReadShare compares reads with writes. A range is served by one member; a write
// is applied by all, so that the most of them is the cluster's.
func checkReadShare() Check {
	return Check{
		Name: "reads and writes", Asks: "does somebody poll?", IDs: []string{"KVD-READ-004"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			reads, writes := 0.0, 0.0
			var e []Evidence
			var busiest memberDelta
			most := -1.0
			for _, d := range in.deltas() {
				r, _ := d.Rate("etcd_mvcc_range_total", nil)
				puts, _ := d.Rate("etcd_mvcc_put_total", nil)
				deletes, _ := d.Rate("etcd_mvcc_delete_total", nil)
				reads, writes = reads+r, max(writes, puts+deletes)
				e = append(e, d.evidence("ranges on "+name(d.Member), r, Rate))
				if r > most {
					most, busiest = r, d
				}
			}
			if reads < in.Limits.ReadRate || reads < in.Limits.ReadRatio*writes {
				return nil, fmt.Sprintf("%.1f ranges/s, %.1f writes/s", reads, writes)
			}
			e = append(e, Evidence{What: "puts and deletes", Value: writes, Unit: Rate, Source: "metrics of all members, between the samples", At: in.At})
			return []Finding{{ID: "KVD-READ-004", Severity: Info, Subject: name(busiest.Member), Evidence: e,
				Summary: fmt.Sprintf("%.0f ranges are served each second for %.1f writes, most of them by %s: whoever asks again and again gets the same answer", reads, writes, name(busiest.Member)),
				Remedy:  []string{"find who polls: grpc_server_started_total and the connections of " + name(busiest.Member), "watch instead; read serializable where old data will do, and spread readers over the members"}}}, ""
		},
	}
}
