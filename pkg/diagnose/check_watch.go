package diagnose

import "fmt"

// checkWatch looks at watchers that lag. Any watcher that begins in the past is one
// for a moment, so that only what both samples show counts.
func checkWatch() Check {
	return Check{
		Name: "watchers", Asks: "do watchers keep up?", IDs: []string{"KVD-WATCH-001"}, Needs: []Need{NeedDelta},
		Look: func(in *Input) ([]Finding, string) {
			const slowName, pendingName = "etcd_debugging_mvcc_slow_watcher_total", "etcd_debugging_mvcc_pending_events_total"
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
					ExplainedBy: []string{"KVD-READ-001", "KVD-LEASE-001"}})
			}
			return out, fmt.Sprintf("%.0f of %.0f lag", lagging, all)
		},
	}
}
