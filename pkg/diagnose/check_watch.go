package diagnose

import "fmt"

// Gauges of etcd's watchable store: watchers that are behind, and events read for
// them and not taken yet (server/storage/mvcc/watchable_store.go).
const (
	slowName    = "etcd_debugging_mvcc_slow_watcher_total"
	pendingName = "etcd_debugging_mvcc_pending_events_total"
)

// checkWatch looks at watchers that lag. Any watcher that begins in the past is one
// for a moment, so that only what both samples show counts.
func checkWatch() Check {
	return Check{
		Name: "watchers", Asks: "do watchers keep up?", IDs: []string{"KVD-WATCH-001"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			all, lagging := 0.0, 0.0
			for _, d := range in.deltas() {
				n, _ := d.To.Value("etcd_debugging_mvcc_watcher_total", nil)
				now, ok := d.To.Value(slowName, nil)
				was, _ := d.From.Value(slowName, nil)
				pending, _ := d.To.Value(pendingName, nil)
				pendingWas, _ := d.From.Value(pendingName, nil)
				all, lagging = all+n, lagging+now
				// Events wait for somebody only while a watcher lags: those of a watch that was
				// cancelled are counted until its stream ends (sendLoop in
				// server/etcdserver/api/v3rpc/watch.go).
				waiting := min(now, was) >= 1 && min(pending, pendingWas) >= in.Limits.PendingEvents
				if !ok || min(now, was) < in.Limits.SlowWatchers && !waiting {
					continue
				}
				out = append(out, Finding{ID: "KVD-WATCH-001", Severity: Warning, Subject: name(d.Member),
					Summary: fmt.Sprintf("watchers on %s do not keep up: %.0f of %.0f lag, before and after; %.0f events wait", name(d.Member), now, n, pending),
					Evidence: []Evidence{sampled(d.Member, d.From, "slow watchers, before", was, Count), sampled(d.Member, d.To, "slow watchers, now", now, Count),
						sampled(d.Member, d.To, "watchers", n, Count), sampled(d.Member, d.To, "events waiting", pending, Count)},
					Remedy:      []string{"find the client that does not read: its connection is the one with a full send queue (ss -tn on the member)", "share one watch between readers, split it by namespace, and restart the client that hangs"},
					ExplainedBy: []string{"KVD-WATCH-002", "KVD-READ-001", "KVD-LEASE-001"}})
			}
			return out, fmt.Sprintf("%.0f of %.0f lag", lagging, all)
		},
	}
}

// checkStarved looks at how many watchers share a stream where watchers lag. Metrics
// do not tell streams apart, so that it is the mean that counts, and who is behind a
// stream is for its machine to tell.
func checkStarved() Check {
	return Check{
		Name: "watch streams", Asks: "do watchers hold each other up?", IDs: []string{"KVD-WATCH-002"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			most, measured := -1.0, "no watcher"
			for _, d := range in.deltas() {
				n, _ := d.To.Value("etcd_debugging_mvcc_watcher_total", nil)
				streams, _ := d.To.Value("etcd_debugging_mvcc_watch_stream_total", nil)
				now, _ := d.To.Value(slowName, nil)
				was, _ := d.From.Value(slowName, nil)
				share := n / max(1, streams)
				if n > 0 && share > most {
					most, measured = share, fmt.Sprintf("the most share a stream on %s: %.0f watchers on %.0f", name(d.Member), n, streams)
				}
				if share < in.Limits.WatchersPerStream || min(now, was) < in.Limits.SlowWatchers {
					continue
				}
				events, _ := d.Counter("etcd_debugging_mvcc_events_total", nil)
				pending, _ := d.To.Value(pendingName, nil)
				out = append(out, Finding{ID: "KVD-WATCH-002", Severity: Warning, Subject: name(d.Member),
					Summary: fmt.Sprintf("%.0f watchers share %.0f streams on %s, and %.0f of them lag: what one does not take, the others of its stream do not get", n, streams, name(d.Member), now),
					Evidence: []Evidence{sampled(d.Member, d.To, "watchers", n, Count), sampled(d.Member, d.To, "streams", streams, Count), sampled(d.Member, d.To, "watchers on a stream, in the mean", share, Count),
						sampled(d.Member, d.From, "slow watchers, before", was, Count), sampled(d.Member, d.To, "slow watchers, now", now, Count),
						d.evidence("events sent", events, Count), sampled(d.Member, d.To, "events waiting", pending, Count)},
					Remedy: []string{"which client: ss -tnp on the member's machine, the connection whose send queue is full",
						"open a stream for each group of watchers: in clientv3 a context with metadata of its own, or a client of its own",
						"watch a prefix once in each process, and hand events on inside"}})
			}
			return out, measured
		},
	}
}
