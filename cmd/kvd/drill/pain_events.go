package drill

import (
	"fmt"

	"kvd/pkg/diagnose"
	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/k8s"
	"kvd/pkg/loadgen/result"
)

// What etcd says of leases and of entries.
const (
	leasesGranted = "etcd_debugging_lease_granted_total"
	leasesRevoked = "etcd_debugging_lease_revoked_total"
	entriesDone   = "etcd_server_proposals_applied_total"
)

// Events is the pain of a flood of Events each of which has a lease of its own, as
// kube-apiserver made them before it gave leases out again, and as operators do that
// use etcd by themselves. The grant is a raft entry, and so is the end an hour later.
func Events(rate float64) Pain {
	variant := func(each bool, flag, what string) Variant {
		return Variant{What: what, Command: fmt.Sprintf("kvd loadgen k8s-events --rate %g%s", rate, flag), Scenario: func() loadgen.Scenario {
			e := &k8s.Events{EventOptions: k8s.DefaultEventOptions()}
			e.Rate, e.LeasePerEvent = rate, each
			return e
		}}
	}
	return Pain{
		Name: "events", Symptom: "KVD-LEASE-004",
		Load:   variant(true, " --lease-per-event", "each Event is written with a lease of its own"),
		Remedy: variant(false, "", "a lease is given to up to 1000 Events within a minute, as kube-apiserver does"),
		Gauges: []string{leasesGranted, leasesRevoked, entriesDone},
		Figures: func(pain, remedied PainRun) []Figure {
			written := func(r result.Report) float64 { return requests(r, "txn", "events") }
			asked := func(r result.Report) float64 { return requests(r, "lease_grant", "events") }
			standing := func(r PainRun) float64 { return r.gauge(leasesGranted, risen) - r.gauge(leasesRevoked, risen) }
			entries := gaugeFigure("raft entries for 100 Events", diagnose.Count, entriesDone, pain, remedied, risen)
			entries.Pain *= 100 / max(1, written(pain.Load))
			entries.Remedied *= 100 / max(1, written(remedied.Load))
			return []Figure{
				figure("Events written", diagnose.Count, fromGenerator, pain, remedied, written).sameWork(pain, remedied),
				figure("leases asked for", diagnose.Count, fromGenerator, pain, remedied, asked).atLeast(10),
				gaugeFigure("leases granted", diagnose.Count, leasesGranted, pain, remedied, risen).atLeast(10),
				{What: "leases more than before", Unit: diagnose.Count, From: leasesGranted, Pain: standing(pain), Remedied: standing(remedied), AtLeast: 10},
				entries.atLeast(1.5),
				figure("written to the logs", diagnose.Bytes, fromLog, pain, remedied, toLogs),
				figure("p99 of Events", diagnose.Seconds, fromGenerator, pain, remedied, p99Of("txn", "events")),
			}
		},
	}
}
