// Package metrics reads what an etcd member serves under /metrics: counters and
// gauges by name, histograms with quantiles, and the difference of two samples.
//
// A defragmenting member answers almost nothing else: its status, reads, /health
// and even /version wait for the backend, /metrics does not.
package metrics

import (
	"io"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"kvd/pkg/ops/fault"
)

// Names of metrics that etcd serves (source: server/v3 storage/backend/metrics.go,
// storage/mvcc/metrics.go, etcdserver/metrics.go; the last two from
// prometheus/client_golang's process collector).
const (
	DefragInflight   = "etcd_disk_defrag_inflight"                   // gauge: 1 while a defragmentation runs
	DefragDuration   = "etcd_disk_backend_defrag_duration_seconds"   // histogram: those that succeeded
	DBSize           = "etcd_mvcc_db_total_size_in_bytes"            // gauge: bytes of the file
	DBInUse          = "etcd_mvcc_db_total_size_in_use_in_bytes"     // gauge: bytes of it in use
	IsLeader         = "etcd_server_is_leader"                       // gauge: 1 or 0
	QuotaBytes       = "etcd_server_quota_backend_bytes"             // gauge: bytes
	ProposalsPending = "etcd_server_proposals_pending"               // gauge: proposals that wait to be applied
	WALFsync         = "etcd_disk_wal_fsync_duration_seconds"        // histogram
	BackendCommit    = "etcd_disk_backend_commit_duration_seconds"   // histogram
	ResidentMemory   = "process_resident_memory_bytes"               // gauge: bytes
	ProcessStart     = "process_start_time_seconds"                  // gauge: seconds since 1970
	ActivePeers      = "etcd_network_active_peers"                   // gauge by Local, Remote: connections that stand (etcdserver/api/rafthttp/metrics.go)
	PeerRoundTrips   = "etcd_network_peer_round_trip_time_seconds"   // histogram by To: what probes of the peers' URLs took, smoothed; 0 as long as none was answered (etcdserver/api/rafthttp/probing_status.go)
	SnapshotSends    = "etcd_network_snapshot_send_inflights_total"  // gauge by To: raft snapshots on their way to a peer (the same file)
	LeaderChanges    = "etcd_server_leader_changes_seen_total"       // counter
	SlowApplies      = "etcd_server_slow_apply_total"                // counter: entries that took over 100 ms to apply
	WALBytes         = "etcd_disk_wal_write_bytes_total"             // gauge that only grows: bytes (storage/wal/metrics.go)
	PeerSentBytes    = "etcd_network_peer_sent_bytes_total"          // counter by To: bytes (etcdserver/api/rafthttp/metrics.go)
	ClientSentBytes  = "etcd_network_client_grpc_sent_bytes_total"   // counter: bytes (etcdserver/api/v3rpc/metrics.go)
	PutBytes         = "etcd_debugging_mvcc_total_put_size_in_bytes" // gauge: bytes of the keys and values put (storage/mvcc/metrics.go)
	CompactRevision  = "etcd_debugging_mvcc_compact_revision"        // gauge: the revision of the last compaction
	CompactedLast    = "etcd_debugging_mvcc_db_compaction_last"      // gauge: when that was, in seconds since 1970; 0 since the start
	CPUSeconds       = "process_cpu_seconds_total"                   // counter: seconds
	RPCStarted       = "grpc_server_started_total"                   // counter by grpc_method: requests begun (go-grpc-middleware's provider)
	RPCHandled       = "grpc_server_handled_total"                   // counter by grpc_method, grpc_code: requests ended, with whatever code
)

// Sample is what a member's metrics were at one moment. It is not changed after
// it was made, so it is safe for concurrent use.
type Sample struct {
	At       time.Time
	families map[string]*dto.MetricFamily
}

// Parse reads the text format of Prometheus, which may hold anything: what is
// not in that format is an error, never a panic. The caller bounds r.
func Parse(r io.Reader, at time.Time) (*Sample, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(r)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Unavailable, Cause: "not_metrics", Op: "read metrics", Err: err,
			Msg: "the answer is not in the text format of Prometheus", Hint: "give the address that serves etcd's metrics with --metrics-url NAME=URL"}
	}
	return &Sample{At: at, families: families}, nil
}

// Labels are the values that a time series must have for some of its labels.
type Labels map[string]string

func (l Labels) match(m *dto.Metric) bool {
	for name, want := range l {
		if !slices.ContainsFunc(m.GetLabel(), func(p *dto.LabelPair) bool { return p.GetName() == name && p.GetValue() == want }) {
			return false
		}
	}
	return true
}

// Names lists the names of all metrics, sorted.
func (s *Sample) Names() []string {
	names := make([]string, 0, len(s.families))
	for n := range s.families {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Value returns the sum of all counters or gauges of that name which have these
// labels (nil: all), and whether there is any.
func (s *Sample) Value(name string, labels Labels) (float64, bool) {
	sum, found := 0.0, false
	for _, m := range s.families[name].GetMetric() {
		if !labels.match(m) {
			continue
		}
		v, ok := scalar(m)
		if !ok {
			continue
		}
		sum, found = sum+v, true
	}
	return sum, found
}

func scalar(m *dto.Metric) (float64, bool) {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue(), true
	case m.Gauge != nil:
		return m.Gauge.GetValue(), true
	case m.Untyped != nil:
		return m.Untyped.GetValue(), true
	}
	return 0, false
}

// ByLabel returns the values of the counters or gauges of that name by the value
// of one label; those without the label are under the empty string.
func (s *Sample) ByLabel(name, label string) map[string]float64 {
	out := map[string]float64{}
	for _, m := range s.families[name].GetMetric() {
		v, ok := scalar(m)
		if !ok {
			continue
		}
		key := ""
		for _, p := range m.GetLabel() {
			if p.GetName() == label {
				key = p.GetValue()
			}
		}
		out[key] += v
	}
	return out
}

// LabelValues lists the values that a label has among the time series of a name,
// sorted.
func (s *Sample) LabelValues(name, label string) []string {
	var out []string
	for _, m := range s.families[name].GetMetric() {
		for _, p := range m.GetLabel() {
			if p.GetName() == label && !slices.Contains(out, p.GetValue()) {
				out = append(out, p.GetValue())
			}
		}
	}
	slices.Sort(out)
	return out
}

// Restarted reports that the process that served s is another than that of the
// older sample, so that its counters began again.
func (s *Sample) Restarted(older *Sample) bool {
	a, okA := older.Value(ProcessStart, nil)
	b, okB := s.Value(ProcessStart, nil)
	return okA && okB && a != b
}

// Has reports whether the sample has the metric at all: an older server may
// not.
func (s *Sample) Has(name string) bool { return len(s.families[name].GetMetric()) > 0 }

// trimMetricsPath gives the base address of what may be given with or without
// the path.
func trimMetricsPath(u string) string {
	return strings.TrimSuffix(strings.TrimSuffix(u, "/"), "/metrics")
}
