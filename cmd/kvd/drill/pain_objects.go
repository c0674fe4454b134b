package drill

import (
	"fmt"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
)

// BigObjects is the pain of objects that are large and of which each change is small.
// chunk is the size of the parts that are the remedy; both are in bytes.
func BigObjects(size, chunk int64, rate float64) Pain {
	variant := func(part int64, what string) Variant {
		command := fmt.Sprintf("kvd loadgen k8s-objects --size %d --rate %g", size, rate)
		if part > 0 {
			command += fmt.Sprintf(" --chunk %d", part)
		}
		return Variant{What: what, Command: command, Scenario: func() loadgen.Scenario {
			b := &k8s.Objects{ObjectOptions: k8s.DefaultObjectOptions()}
			b.Size, b.Chunk, b.Rate = size, part, rate
			return b
		}}
	}
	parts := float64(size) / float64(max(1, chunk))
	return Pain{
		Name: "big-objects", Symptom: "KVD-OBJECT-001",
		Load:   variant(0, fmt.Sprintf("ConfigMaps of %s are written whole for each change, %g times a second", diagnose.Bytes.Show(float64(size)), rate)),
		Remedy: variant(chunk, fmt.Sprintf("the same content is kept in parts of %s, of which the one that changed is written", diagnose.Bytes.Show(float64(chunk)))),
		Figures: func(pain, remedied PainRun) []Figure {
			written := func(r result.Report) float64 { return requests(r, "txn", "configmaps") }
			each := func(of func(result.Report) float64) func(result.Report) float64 {
				return func(r result.Report) float64 { return of(r) / max(written(r), 1) }
			}
			fewer := asWritten(pain, remedied, written)
			all := []Figure{
				figure("changes written", diagnose.Count, fromGenerator, pain, remedied, written).sameWork(pain, remedied),
				figure("written for a change", diagnose.Bytes, fromGenerator, pain, remedied, each(func(r result.Report) float64 { return bytesOf(r, "configmaps") })).atLeast(0.8 * parts),
				figure("put for it, as the store counts", diagnose.Bytes, fromStore, pain, remedied, each(stored)).atLeast(0.9 * fewer),
				figure("written to the logs for it", diagnose.Bytes, fromLog, pain, remedied, each(toLogs)).atLeast(0.7 * fewer),
			}
			if len(pain.Endpoints) > 1 {
				all = append(all, figure("sent to peers for it", diagnose.Bytes, fromPeers, pain, remedied, each(toPeers)).atLeast(0.5*fewer))
			}
			return append(all, figure("growth of the pages in use for it", diagnose.Bytes, fromInUse, pain, remedied, each(grown)),
				figure("p99 of a change", diagnose.Seconds, fromGenerator, pain, remedied, p99Of("txn", "configmaps")),
				figure("p99 of heartbeats beside it", diagnose.Seconds, fromGenerator, pain, remedied, p99Of("txn", "leases")))
		},
	}
}
