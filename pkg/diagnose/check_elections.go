package diagnose

import "fmt"

// checkElections counts elections between the looks, by the term and by what each
// member saw (leader_changes_seen_total in server/etcdserver/raft.go counts each new
// leader that the member hears of).
func checkElections() Check {
	return Check{
		Name: "elections", Asks: "does the leader stay?", IDs: []string{"KVD-RAFT-003"}, Needs: []Need{NeedTwo},
		Look: func(in *Input) ([]Finding, string) {
			var terms, seen float64
			var e []Evidence
			for _, m := range in.view().Answered() {
				old, ok := in.before(m.ID)
				if !ok || m.Status.RaftTerm <= old.Status.RaftTerm {
					continue
				}
				grown := float64(m.Status.RaftTerm - old.Status.RaftTerm)
				terms = max(terms, grown)
				e = append(e, status(m, "term of "+name(m)+" grew by", grown, Count))
			}
			for _, d := range in.deltas() {
				if n, ok := d.Counter("etcd_server_leader_changes_seen_total", nil); ok && n > 0 {
					seen = max(seen, n)
					e = append(e, d.evidence("leader changes seen by "+name(d.Member), n, Count))
				}
				if n, ok := d.Counter("etcd_server_heartbeat_send_failures_total", nil); ok && n > 0 {
					e = append(e, d.evidence("heartbeats that "+name(d.Member)+" sent late", n, Count))
				}
			}
			secs := Seconds.Show(in.interval().Seconds())
			n := max(terms, seen)
			if n < in.Limits.LeaderChanges {
				return nil, fmt.Sprintf("no election in %s", secs)
			}
			return []Finding{{ID: "KVD-RAFT-003", Severity: Warning, Subject: "cluster", Evidence: e,
				ExplainedBy: []string{"KVD-RAFT-002", "KVD-DISK-001", "KVD-DISK-002", "KVD-NET-001", "KVD-NET-003"},
				Summary:     fmt.Sprintf("%s within %s: each stops writes for about an election timeout, and begins every lease anew", counted(int64(n), "election"), secs),
				Remedy: []string{"see whether somebody moved the leadership on purpose; else a slow disk, a slow network or a machine without CPU time is behind it",
					"kvd diagnose --interval 1m"}}}, ""
		},
	}
}
