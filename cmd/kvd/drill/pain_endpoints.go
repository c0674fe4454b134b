package drill

import (
	"fmt"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// Endpoints is the pain of a Service with many pods whose addresses are kept in one
// object: it is written whole, and sent whole to each watcher, for each pod that
// changes. So many pods are replaced in a second.
func Endpoints(pods int, rate float64) Pain {
	variant := func(mode, what string) Variant {
		return Variant{What: what, Command: fmt.Sprintf("kvd loadgen k8s-endpoints --pods %d --pod-rate %g --mode %s", pods, rate, mode), Scenario: func() loadgen.Scenario {
			e := &k8s.Endpoints{EndpointOptions: k8s.DefaultEndpointOptions()}
			e.EndpointOptions.Endpoints, e.PodRate, e.Mode = pods, rate, mode
			return e
		}}
	}
	return Pain{
		Name: "endpoints", Symptom: "KVD-OBJECT-002",
		Load:   variant(k8s.ModeEndpoints, fmt.Sprintf("a Service of %d pods has all its addresses in one Endpoints object, and %g pods are replaced in a second", pods, rate)),
		Remedy: variant(k8s.ModeSlices, "the same Service has EndpointSlices of 100 addresses, of which one is written for a change"),
		Figures: func(pain, remedied PainRun) []Figure {
			each := func(of func(result.Report) float64) func(result.Report) float64 {
				return func(r result.Report) float64 { return of(r) / max(changes(r), 1) }
			}
			fewer := asWritten(pain, remedied, changes)
			all := []Figure{
				figure("changes written", diagnose.Count, fromGenerator, pain, remedied, changes).sameWork(pain, remedied),
				figure("written for a change", diagnose.Bytes, fromGenerator, pain, remedied, each(func(r result.Report) float64 { return bytesOf(r, changed(r)) })).atLeast(0.8 * float64(pods) / shape.MaxSlice),
				figure("put for it, as the store counts", diagnose.Bytes, fromStore, pain, remedied, each(stored)).atLeast(0.9 * fewer),
				figure("written to the logs for it", diagnose.Bytes, fromLog, pain, remedied, each(toLogs)).atLeast(0.8 * fewer),
				figure("sent to watchers and other clients for it", diagnose.Bytes, fromClients, pain, remedied, each(toClients)),
			}
			if len(pain.Endpoints) > 1 {
				all = append(all, figure("sent to peers for it", diagnose.Bytes, fromPeers, pain, remedied, each(toPeers)).atLeast(0.6*fewer))
			}
			return append(all, figure("growth of the pages in use for it", diagnose.Bytes, fromInUse, pain, remedied, each(grown)),
				figure("p99 of heartbeats beside it", diagnose.Seconds, fromGenerator, pain, remedied, p99Of("txn", "leases")))
		},
	}
}

// changed is what a change of the Service's pods writes.
func changed(r result.Report) string {
	if r.Params["mode"] == k8s.ModeEndpoints {
		return "endpoints"
	}
	return "endpointslices"
}

func changes(r result.Report) float64 { return requests(r, "txn", changed(r)) }
