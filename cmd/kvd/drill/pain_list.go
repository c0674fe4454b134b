package drill

import (
	"fmt"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
)

// Remedies for a list of everything.
const (
	RemedyStream = "stream" // RangeStream: chunks of 1.5 MiB or so, as Kubernetes 1.37 reads etcd 3.7
	RemedyPages  = "pages"  // of 500 objects, as kubectl asks for
	RemedyCache  = "cache"  // from the API server's cache, which asks etcd for the revision only
)

// ListDuration is for how long the lists should run: memory takes its time to grow where
// processors are few.
const ListDuration = 20 * time.Second

// What the remedies are set to, and how soon a client lists again.
const (
	listPage  = 500
	listAgain = 100 * time.Millisecond
)

// BigList is the pain of clients that read all pods in one answer, again and again:
// each answer is put together in memory before any of it is sent. remedy is one of
// RemedyStream, RemedyPages and RemedyCache; others are an error of kind Usage.
func BigList(pods, clients int, remedy string) (Pain, error) {
	variant := func(what, flags string, how func(*k8s.ListOptions)) Variant {
		return Variant{What: what, Command: fmt.Sprintf("kvd loadgen k8s-list --objects %d --clients %d --period %s --arrival kubelet%s", pods, clients, listAgain, flags),
			Tune: func(o *loadgen.Options) { o.Arrival = loadgen.Kubelet }, // a client waits for its answer
			Scenario: func() loadgen.Scenario {
				l := &k8s.List{ListOptions: k8s.DefaultListOptions()}
				l.Objects, l.Clients, l.Period = pods, clients, listAgain
				how(&l.ListOptions)
				return l
			}}
	}
	p := Pain{
		Name: "big-list", Symptom: "KVD-MEM-001", LookBefore: true, Look: 0.8, Figures: listFigures,
		Load: variant(fmt.Sprintf("%d clients read all %d pods, each in one answer, and again %s later", clients, pods, listAgain), "", func(*k8s.ListOptions) {}),
	}
	switch remedy {
	case RemedyStream:
		p.Remedy = variant("the same clients read them as a stream (RangeStream), chunk by chunk", " --stream", func(l *k8s.ListOptions) { l.Stream = true })
	case RemedyPages:
		p.Remedy = variant(fmt.Sprintf("the same clients read them in pages of %d", listPage), fmt.Sprintf(" --page-size %d", listPage), func(l *k8s.ListOptions) { l.PageSize = listPage })
	case RemedyCache:
		p.Remedy = variant("the same clients read them from the caches of API servers, which ask etcd how far to be", " --from-cache", func(l *k8s.ListOptions) { l.FromCache = true })
	default:
		return p, usage("--remedy %q: want %s, %s or %s", remedy, RemedyStream, RemedyPages, RemedyCache)
	}
	return p, nil
}

func listFigures(pain, remedied PainRun) []Figure {
	lists := func(r result.Report) float64 { return requests(r, "list", "pods") }
	return []Figure{
		figure("peak of a member's memory", diagnose.Bytes, fromMemory, pain, remedied, func(r result.Report) float64 {
			return most(r, func(m result.MemberTotals) float64 { return float64(m.MemoryPeak) })
		}).atLeast(2),
		figure("heartbeats beside the lists", diagnose.Count, fromGenerator, pain, remedied, func(r result.Report) float64 { return requests(r, "txn", "leases") }),
		figure("their p99", diagnose.Seconds, fromGenerator, pain, remedied, p99Of("txn", "leases")),
		figure("lists done", diagnose.Count, fromGenerator, pain, remedied, lists),
		figure("p99 of a list", diagnose.Seconds, fromGenerator, pain, remedied, p99Of("list", "pods")),
		figure("sent to clients in a second", diagnose.Bytes, fromClients, pain, remedied, func(r result.Report) float64 { return toClients(r) / max(r.Measured, 1e-9) }),
		figure("processor time of the members in a second", diagnose.Seconds, fromCPU, pain, remedied, func(r result.Report) float64 {
			return summed(r, func(m result.MemberTotals) float64 { return m.CPU }) / max(r.Measured, 1e-9)
		}),
	}
}
