package drill

import (
	"fmt"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
)

// leaderChanges counts each new leader that a member hears of.
const leaderChanges = "etcd_server_leader_changes_seen_total"

// Leader is the pain of a leader whose machine stands still: nothing is written until
// the others have waited for an election timeout and chosen another. What remedies it
// is to move the leadership before, where that machine is known to be a poor one.
func Leader(nodes int) Pain {
	variant := func(moved bool, what string) Variant {
		return Variant{What: what, Moved: moved, Command: fmt.Sprintf("kvd loadgen k8s-heartbeats --nodes %d", nodes),
			Scenario: func() loadgen.Scenario {
				h := &k8s.Heartbeats{HeartbeatOptions: k8s.DefaultHeartbeatOptions()}
				h.Nodes = nodes
				return h
			}}
	}
	return Pain{
		Name: "leader", Symptom: "KVD-RAFT-003", Members: 3, Stall: true, Gauges: []string{leaderChanges},
		// Twice etcd's defaults: on a busy machine there are elections with those anyway.
		Args:   []string{"--heartbeat-interval=200", "--election-timeout=2000"},
		Load:   variant(false, "the leader stands still for a while"),
		Remedy: variant(true, "the leadership is moved away first, then the same member stands still"),
		Figures: func(pain, remedied PainRun) []Figure {
			over := func(w Waits) float64 { return float64(w.OverSecond) }
			longest := func(w Waits) float64 { return w.Longest }
			lost := func(r result.Report) float64 { return outcomes(r, "txn", result.Timeout) }
			return []Figure{
				figure("heartbeats due", diagnose.Count, fromGenerator, pain, remedied, func(r result.Report) float64 { return float64(r.Offered.Due) }).between(0.99, 1.01),
				gaugeFigure("new leaders that a member heard of", diagnose.Count, leaderChanges, pain, remedied, risen).atLeast(2),
				waitFigure("writes that waited for a second or longer", diagnose.Count, pain, remedied, over).atLeast(2),
				figure("of them, told that they timed out", diagnose.Count, fromGenerator, pain, remedied, lost),
				waitFigure("longest wait of a write", diagnose.Seconds, pain, remedied, longest),
			}
		},
	}
}

// outcomes counts the requests of a kind that ended in one way.
func outcomes(r result.Report, rpc, outcome string) float64 {
	n := int64(0)
	for _, q := range r.Requests {
		if q.RPC == rpc && q.Outcome == outcome {
			n += q.Count
		}
	}
	return float64(n)
}
