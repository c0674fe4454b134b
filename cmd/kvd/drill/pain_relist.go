package drill

import (
	"fmt"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/metrics"
)

// How the caches of API servers fill themselves where they do not read all at once.
const (
	RelistPages  = "pages"  // of relistPage objects
	RelistStream = "stream" // etcd 3.7's RangeStream
)

// What is enough for the memory to grow, and for the answers to be there where processors
// are few and slow.
const (
	RelistAPIServers = 14
	RelistDuration   = 40 * time.Second
)

// relistPage is what client-go's reflectors ask for at a time.
const relistPage = 500

// relistKinds is less than the 75 of an API server: beside two resources with objects
// the others are empty, and cost hardly anything.
const relistKinds = 4

// RelistStorm is the pain of API servers that all begin anew at once, after a restart
// or a compaction that their watches did not outlive: each reads every resource whole,
// and etcd holds each of these answers in memory, as objects and as the message. Its
// errors are of kind Usage.
func RelistStorm(objects, apiservers int, remedy string, o PainOptions) (Pain, error) {
	if remedy != RelistPages && remedy != RelistStream {
		return Pain{}, usage("--remedy %s: want %s or %s", remedy, RelistPages, RelistStream)
	}
	// One restart; the second would come after the end.
	first, period := o.Warmup+o.Duration/10, 2*o.Duration
	variant := func(page int64, stream bool, flag, what string) Variant {
		return Variant{What: what,
			Command: fmt.Sprintf("kvd loadgen k8s-relist --objects %d --apiservers %d --kinds %d --first %s --period %s%s", objects, apiservers, relistKinds, first, period, flag),
			Scenario: func() loadgen.Scenario {
				r := &k8s.Relist{RelistOptions: k8s.DefaultRelistOptions()}
				r.Objects, r.Kinds, r.First, r.Period, r.PageSize, r.Stream = objects, relistKinds, first, period, page, stream
				return r
			},
			Tune: func(l *loadgen.Options) { l.APIServers = apiservers }}
	}
	p := Pain{
		Name: "relist-storm", Symptom: "KVD-MEM-001", Gauges: []string{metrics.ResidentMemory, metrics.SlowApplies},
		Look: 0.8, // on a busy machine it takes long until the answers are there
		Load: variant(0, false, " --page-size 0", fmt.Sprintf("%d API servers begin anew all at once, and each reads all pods in one answer", apiservers)),
		Figures: func(pain, remedied PainRun) []Figure {
			answer := func(r result.Report) float64 { return meanBytes(r, "range", "pods") }
			grown := func(g Gauge) float64 { return g.Peak - g.Before }
			all := []Figure{
				figure("caches that were to be filled", diagnose.Count, fromGenerator, pain, remedied, func(r result.Report) float64 { return float64(r.Offered.Due) }).between(0.99, 1.01),
				figure("objects read", diagnose.Count, fromGenerator, pain, remedied, func(r result.Report) float64 { return r.Counters["objects_listed"] }),
				gaugeFigure("growth of a member's memory", diagnose.Bytes, metrics.ResidentMemory, pain, remedied, grown).atLeast(1.5),
				gaugeFigure("slow requests", diagnose.Count, metrics.SlowApplies, pain, remedied, risen),
				figure("p99 until a cache of pods is filled", diagnose.Seconds, fromGenerator, pain, remedied, p99Of("cache_filled", "pods")),
				figure("p99 of heartbeats", diagnose.Seconds, fromGenerator, pain, remedied, p99Of("txn", "leases")),
			}
			if remedy == RelistPages {
				all = append(all, figure("an answer with pods, in the mean", diagnose.Bytes, fromGenerator, pain, remedied, answer).atLeast(2))
			}
			return all
		},
	}
	p.Remedy = variant(relistPage, false, fmt.Sprintf(" --page-size %d", relistPage), fmt.Sprintf("the same API servers read pages of %d objects", relistPage))
	if remedy == RelistStream {
		p.Remedy = variant(0, true, " --stream", "the same API servers read by RangeStream")
	}
	return p, nil
}

// meanBytes is how large a kind of answer is.
func meanBytes(r result.Report, rpc, resource string) float64 {
	for _, q := range r.Requests {
		if q.Outcome == result.OK && q.RPC == rpc && q.Resource == resource && q.Count > 0 {
			return float64(q.Bytes) / float64(q.Count)
		}
	}
	return 0
}
