package drill

import (
	"fmt"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
)

// Heartbeats is the pain of kubelets that send their whole Node with every heartbeat,
// as all did before Kubernetes 1.14.
func Heartbeats(nodes int) Pain {
	variant := func(mode, what string) Variant {
		return Variant{What: what, Command: fmt.Sprintf("kvd loadgen k8s-heartbeats --nodes %d --mode %s", nodes, mode), Scenario: func() loadgen.Scenario {
			h := &k8s.Heartbeats{HeartbeatOptions: k8s.DefaultHeartbeatOptions()}
			h.Nodes, h.Mode = nodes, mode
			return h
		}}
	}
	return Pain{
		Name: "heartbeats", Symptom: "KVD-CHURN-002",
		Load:   variant(k8s.ModeStatus, "every kubelet sends its whole Node every 10 s"),
		Remedy: variant(k8s.ModeLease, "every kubelet renews its Lease every 10 s, and sends its Node every 5 min"),
		Figures: func(pain, remedied PainRun) []Figure {
			// By node and minute, so that they can be set against other sizes.
			each := func(of func(result.Report) float64) func(result.Report) float64 {
				return func(r result.Report) float64 { return of(r) / float64(nodes) / max(r.Measured, 1e-9) * 60 }
			}
			all := []Figure{
				figure("heartbeats sent", diagnose.Count, fromGenerator, pain, remedied, beats).sameWork(pain, remedied),
				figure("written for a node in a minute", diagnose.Bytes, fromGenerator, pain, remedied, each(writtenBytes)).atLeast(10),
				figure("put for it, as the store counts", diagnose.Bytes, fromStore, pain, remedied, each(stored)).atLeast(10),
				figure("written to the logs for it", diagnose.Bytes, fromLog, pain, remedied, each(toLogs)).atLeast(8),
			}
			if len(pain.Endpoints) > 1 {
				all = append(all, figure("sent to peers for it", diagnose.Bytes, fromPeers, pain, remedied, each(toPeers)).atLeast(5))
			}
			return append(all, figure("growth of the pages in use for it", diagnose.Bytes, fromInUse, pain, remedied, each(grown)),
				figure("p99 of heartbeats", diagnose.Seconds, fromGenerator, pain, remedied, func(r result.Report) float64 { return p99Of("txn", beatIn(r))(r) }))
		},
	}
}

// beatIn is what a heartbeat writes.
func beatIn(r result.Report) string {
	if r.Params["mode"] == k8s.ModeStatus {
		return "nodes"
	}
	return "leases"
}

func beats(r result.Report) float64 { return requests(r, "txn", beatIn(r)) }
