package diagnose

import (
	"fmt"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
)

// snapshotFails reports a member that needs a snapshot and does not get it: who tried,
// and how often between the looks. A member opens the streams to its peers itself, and
// what they send it comes through these; for a snapshot alone the leader opens a
// connection, to the peer URL of the member list (send in etcd's
// rafthttp/snapshot_sender.go). So one whose address or certificate has changed hears
// all, and takes nothing.
func (in *Input) snapshotFails(m cluster.Member) (Evidence, string, bool) {
	for _, d := range in.deltas() {
		n, _ := d.Counter("etcd_network_snapshot_send_failures", metrics.Labels{"To": cluster.FormatID(m.ID)})
		if n == 0 {
			continue
		}
		if ok, _ := d.Counter("etcd_network_snapshot_send_success", metrics.Labels{"To": cluster.FormatID(m.ID)}); ok > 0 {
			continue
		}
		return Evidence{What: "snapshots that could not be sent to " + name(m), Value: n, Unit: Count, Source: "metrics of " + name(d.Member) + ", between the looks", At: in.At}, name(d.Member), true
	}
	return Evidence{}, "", false
}

// reachForSnapshot is what to do that a snapshot arrives.
func reachForSnapshot(m cluster.Member, by string) []string {
	return []string{fmt.Sprintf("see the log of %s for \"failed to send database snapshot\": it has the error, mostly of the address or the certificate", by),
		fmt.Sprintf("kvd member update %s --peer-urls URL  # if it listens elsewhere than %s", name(m), list(m.PeerURLs)),
		"its peer certificate must name the host of that URL; etcd reads a new one without a restart"}
}
