package drill

import (
	"fmt"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
)

// What etcd says of its watchers.
const (
	slowWatchers  = "etcd_debugging_mvcc_slow_watcher_total"
	pendingEvents = "etcd_debugging_mvcc_pending_events_total"
)

// SlowWatcher is the pain of watches that share one gRPC stream with a reader that
// does not keep up (https://github.com/etcd-io/etcd/issues/17529): etcd keeps 128
// answers for a stream (chanBufLen in server/storage/mvcc/watchable_store.go), and
// when they are not taken, all watches on it lag.
func SlowWatcher(informers int, rate float64) Pain {
	variant := func(streams, what string) Variant {
		return Variant{What: what,
			Command: fmt.Sprintf("kvd loadgen k8s-watch --informers %d --slow 1 --streams %s --apiservers 1 --rate %g", informers, streams, rate),
			Scenario: func() loadgen.Scenario {
				w := &k8s.Watch{WatchOptions: k8s.DefaultWatchOptions()}
				w.Informers, w.Slow, w.Streams, w.Rate = informers, 1, streams, rate
				return w
			},
			Tune: func(o *loadgen.Options) { o.APIServers = 1 }}
	}
	return Pain{
		Name: "slow-watcher", Symptom: "KVD-WATCH-002",
		Load:   variant(k8s.StreamsShared, fmt.Sprintf("%d informers follow pods on one gRPC stream, and one of them reads slowly", informers)),
		Remedy: variant(k8s.StreamsOwn, fmt.Sprintf("the same %d informers, each on a stream of its own", informers)),
		Gauges: []string{slowWatchers, pendingEvents},
		Figures: func(pain, remedied PainRun) []Figure {
			quick := float64(informers - 1)
			got := func(r result.Report) float64 { return requests(r, "watch_event", "pods") }
			missed := func(r result.Report) float64 {
				return max(0, 1-got(r)/max(1, quick*requests(r, "txn", "pods")))
			}
			// What was under way at the end is among what they had not got: on a busy machine
			// that is much of a short load.
			return []Figure{
				figure("updates written", diagnose.Count, fromGenerator, pain, remedied, func(r result.Report) float64 { return requests(r, "txn", "pods") }).sameWork(pain, remedied),
				figure("events that the quick readers got", diagnose.Count, fromGenerator, pain, remedied, got),
				figure("of all that were due to them, not got", diagnose.Ratio, fromGenerator, pain, remedied, missed).atLeast(1.5),
				gaugeFigure("watchers that lag, half of the time", diagnose.Count, slowWatchers, pain, remedied, middle).atLeast(4),
				gaugeFigure("events that wait, at most", diagnose.Count, pendingEvents, pain, remedied, peak),
			}
		},
	}
}
