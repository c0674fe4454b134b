package diagnose

import (
	"regexp"
	"strconv"
)

// Alert is a rule for Prometheus that fires where a check would give a finding: for
// the hours between two diagnoses. Its numbers are those of the table of limits.
type Alert struct {
	Name     string   `json:"alert"`
	Expr     string   `json:"expr"`
	For      string   `json:"for"` // in Prometheus' notation
	Severity Severity `json:"severity"`
	Summary  string   `json:"summary"` // a template of Prometheus
	Finding  string   `json:"finding"` // the ID of what kvd diagnose says then
	Next     string   `json:"next"`    // the command to type
	Runbook  string   `json:"runbook,omitempty"`
	Limits   []string `json:"limits"` // whose numbers it has
}

// limitName stands in an expression for the value of the limit of that name. Behind a
// bar is the first bound of a histogram whose bounds double: then it is the first bound
// at or above the limit, since of what lies between two bounds nothing is known.
var limitName = regexp.MustCompile(`\{\{([a-z0-9_]+)(?:\|([0-9.]+))?\}\}`)

// Alerts returns the rules with the numbers of some limits. A cluster is what has one
// value of the label job; an instance is a member.
func Alerts(l Limits) []Alert {
	value := map[string]float64{}
	for _, row := range l.Table() {
		value[row.Name] = *row.Value
	}
	var out []Alert
	for _, all := range [][]Alert{alertsOfSpace(), alertsOfRaft(), alertsOfDisks(), alertsOfLoad(), alertsOfPlaces()} {
		for _, a := range all {
			a.Limits = []string{}
			a.Expr = limitName.ReplaceAllStringFunc(a.Expr, func(s string) string {
				m := limitName.FindStringSubmatch(s)
				a.Limits = append(a.Limits, m[1])
				v := value[m[1]]
				if bound, err := strconv.ParseFloat(m[2], 64); err == nil {
					v = boundAt(v, bound)
				}
				return strconv.FormatFloat(v, 'f', -1, 64)
			})
			out = append(out, a)
		}
	}
	return out
}

// boundAt is the first bound at or above v, of those that begin with first and double.
func boundAt(v, first float64) float64 {
	for first > 0 && first < v {
		first *= 2
	}
	return first
}

// usage is what a member uses of its quota. One without a quota has none.
const usage = `etcd_mvcc_db_total_size_in_bytes / (etcd_server_quota_backend_bytes > 0)`

func alertsOfSpace() []Alert {
	const nospace, compaction, defrag = "docs/runbooks/nospace.md", "docs/runbooks/compaction.md", "docs/runbooks/defrag.md"
	return []Alert{
		{Name: "EtcdQuotaNear", Finding: "KVD-SPACE-002", Severity: Warning, For: "10m", Runbook: nospace, Next: "kvd quota",
			Expr:    usage + ` >= {{quota_usage_warning}}`,
			Summary: `{{ $labels.instance }} is at {{ $value | humanizePercentage }} of its quota; at 100 % the cluster is read-only.`},
		{Name: "EtcdQuotaReached", Finding: "KVD-SPACE-002", Severity: Critical, For: "1m", Runbook: nospace, Next: "kvd alarm recover --dry-run",
			Expr:    usage + ` >= {{quota_usage_critical}}`,
			Summary: `{{ $labels.instance }} has all but reached its quota.`},
		{Name: "EtcdQuotaSoon", Finding: "KVD-SPACE-006", Severity: Warning, For: "5m", Runbook: nospace, Next: "kvd quota --watch 30s",
			Expr:    soon("full_within_warning"),
			Summary: `{{ $labels.instance }} is on its way to its quota: at the rate of the last 15 minutes {{ $value | humanize1024 }}B will be in use soon, and the cluster read-only.`},
		{Name: "EtcdQuotaVerySoon", Finding: "KVD-SPACE-006", Severity: Critical, For: "2m", Runbook: nospace, Next: "kvd alarm recover --dry-run",
			Expr:    soon("full_within_critical"),
			Summary: `{{ $labels.instance }} reaches its quota within minutes if it goes on growing like in the last 15.`},
		{Name: "EtcdFileMostlyFree", Finding: "KVD-SPACE-004", Severity: Warning, For: "36h", Runbook: defrag, Next: "kvd defrag --dry-run",
			Expr:    `(1 - etcd_mvcc_db_total_size_in_use_in_bytes / etcd_mvcc_db_total_size_in_bytes >= {{free_pages}}) and ` + usage + ` >= {{free_pages_from_usage}}`,
			Summary: `{{ $value | humanizePercentage }} of the file of {{ $labels.instance }} is free and a night has passed: nothing defragments it.`},
		{Name: "EtcdHistoryPilesUp", Finding: "KVD-SPACE-005", Severity: Warning, For: "10m", Runbook: compaction, Next: "kvd compact --dry-run",
			Expr: `(` + kept + ` >= {{uncompacted_revisions}}) or (` + kept + ` >= {{history_revisions}} and ` +
				kept + ` >= {{history_per_key}} * etcd_debugging_mvcc_keys_total)`,
			Summary: `{{ $labels.instance }} keeps {{ $value | humanize }} old revisions.`},
		{Name: "EtcdNobodyCompacts", Finding: "KVD-SPACE-005", Severity: Warning, For: "30m", Runbook: compaction, Next: "kvd diagnose",
			Expr: `increase(etcd_debugging_mvcc_current_revision[{{nobody_compacts}}s]) >= {{nobody_compacts_revisions}}` +
				` and changes(etcd_debugging_mvcc_compact_revision[{{nobody_compacts}}s]) == 0`,
			Summary: `{{ $labels.instance }} has compacted nothing while {{ $value | humanize }} revisions were written.`},
	}
}

// kept is how many old revisions a member keeps.
const kept = `(etcd_debugging_mvcc_current_revision - etcd_debugging_mvcc_compact_revision)`

// soon is a file that is large already, and whose pages in use will reach the quota
// within the seconds of a limit.
func soon(limit string) string {
	const inUse, quota = `etcd_mvcc_db_total_size_in_use_in_bytes`, `(etcd_server_quota_backend_bytes > 0)`
	return `predict_linear(` + inUse + `[15m], {{` + limit + `}}) >= ` + quota + ` and ` + inUse + ` / ` + quota + ` >= {{growth_from_usage}}`
}

func alertsOfRaft() []Alert {
	const committed, applied = `etcd_server_proposals_committed_total`, `etcd_server_proposals_applied_total`
	return []Alert{
		{Name: "EtcdNoLeader", Finding: "KVD-RAFT-001", Severity: Critical, For: "1m", Next: "kvd status",
			Expr:    `etcd_server_has_leader == 0`,
			Summary: `{{ $labels.instance }} knows of no leader: it takes no write.`},
		{Name: "EtcdElections", Finding: "KVD-RAFT-003", Severity: Warning, For: "0m", Next: "kvd diagnose --interval 1m",
			// A member that begins anew sees a new leader by itself: two have to.
			Expr:    `count by (job) (increase(etcd_server_leader_changes_seen_total[10m]) >= {{leader_changes}}) >= 2`,
			Summary: `A new leader was elected within 10 minutes, as {{ $value }} members of {{ $labels.job }} saw.`},
		{Name: "EtcdMemberLags", Finding: "KVD-RAFT-004", Severity: Warning, For: "2m", Next: "kvd status",
			Expr:    `max by (job) (` + committed + `) - on (job) group_right () ` + committed + ` >= {{lag_entries}}`,
			Summary: `{{ $labels.instance }} has still to receive {{ $value | humanize }} entries that the others have committed.`},
		{Name: "EtcdApplyLags", Finding: "KVD-RAFT-005", Severity: Warning, For: "1m", Next: "kvd diagnose",
			Expr:    committed + ` - ` + applied + ` >= {{apply_gap_entries}}`,
			Summary: `{{ $labels.instance }} has {{ $value | humanize }} entries committed and not applied; at 5000 it refuses requests.`},
	}
}

// p99 is the 99th percentile over some time, of a histogram that has enough
// observations in it. Bounds begin with first.
func p99(name, over, limit, first, observations string) string {
	return `histogram_quantile(0.99, rate(` + name + `_bucket[` + over + `])) >= {{` + limit + `|` + first + `}} and increase(` + name + `_count[` + over + `]) >= {{` + observations + `}}`
}

func alertsOfDisks() []Alert {
	return []Alert{
		{Name: "EtcdSlowFsync", Finding: "KVD-DISK-001", Severity: Warning, For: "10m", Next: "kvd diagnose --interval 1m",
			Expr:    p99("etcd_disk_wal_fsync_duration_seconds", "5m", "wal_fsync_p99", "0.001", "observations_min"),
			Summary: `The disk of {{ $labels.instance }} is slow: p99 of a WAL fsync is {{ $value | humanizeDuration }}. If it is one member of three, it is its disk.`},
		{Name: "EtcdSlowCommit", Finding: "KVD-DISK-002", Severity: Warning, For: "10m", Next: "kvd diagnose --interval 1m",
			Expr:    p99("etcd_disk_backend_commit_duration_seconds", "5m", "backend_commit_p99", "0.001", "observations_min"),
			Summary: `Commits of the database of {{ $labels.instance }} are slow: p99 is {{ $value | humanizeDuration }}.`},
	}
}

func alertsOfLoad() []Alert {
	const etcds = ` and on (job, instance) etcd_server_has_leader`
	return []Alert{
		{Name: "EtcdSlowRequests", Finding: "KVD-READ-001", Severity: Warning, For: "5m", Next: "kvd diagnose --interval 1m",
			Expr:    `rate(etcd_server_slow_apply_total[5m]) >= {{slow_applies}}`,
			Summary: `{{ $value | humanize }} requests a second take longer than 100 ms at {{ $labels.instance }}.`},
		{Name: "EtcdSlowReadIndexes", Finding: "KVD-READ-002", Severity: Warning, For: "5m", Next: "kvd diagnose --interval 1m",
			Expr:    `increase(etcd_server_slow_read_indexes_total[5m]) + increase(etcd_server_read_indexes_failed_total[5m]) >= {{slow_read_indexes}}`,
			Summary: `{{ $value | humanize }} linearizable reads through {{ $labels.instance }} were late or failed within 5 minutes.`},
		{Name: "EtcdSlowWatchers", Finding: "KVD-WATCH-001", Severity: Warning, For: "5m", Next: "kvd diagnose",
			Expr:    slowName + ` >= {{slow_watchers}} or ` + pendingName + ` >= {{pending_events}} and ` + slowName + ` >= 1`,
			Summary: `Watchers on {{ $labels.instance }} do not keep up: {{ $value | humanize }} of them lag, or as many events wait.`},
		{Name: "EtcdMemoryGrows", Finding: "KVD-MEM-001", Severity: Warning, For: "0m", Next: "kvd diagnose --interval 1m",
			Expr:    `delta(process_resident_memory_bytes[5m]) >= {{memory_growth}}` + etcds,
			Summary: `The memory of {{ $labels.instance }} grew by {{ $value | humanize1024 }}B within 5 minutes.`},
		{Name: "EtcdMemoryLarge", Finding: "KVD-MEM-003", Severity: Warning, For: "30m", Next: "kvd diagnose --interval 1m",
			Expr: `process_resident_memory_bytes >= {{memory_from}} and on (job, instance) process_resident_memory_bytes` +
				` >= on (job, instance) {{memory_ratio}} * (etcd_mvcc_db_total_size_in_bytes + etcd_debugging_mvcc_keys_total * ` + strconv.Itoa(indexPerKey) + `)`,
			Summary: `{{ $labels.instance }} has {{ $value | humanize1024 }}B in memory, and its file and index explain only a part of that.`},
		{Name: "EtcdStarvedWatchers", Finding: "KVD-WATCH-002", Severity: Warning, For: "5m", Next: "kvd diagnose",
			Expr:    `etcd_debugging_mvcc_watcher_total / (etcd_debugging_mvcc_watch_stream_total > 0) >= {{watchers_per_stream}} and ` + slowName + ` >= {{slow_watchers}}`,
			Summary: `{{ $value | humanize }} watchers share a stream on {{ $labels.instance }}, and some lag: one that is not read holds up the others.`},
		{Name: "EtcdPolled", Finding: "KVD-READ-004", Severity: Info, For: "30m", Next: "kvd diagnose",
			Expr: `sum by (job) (rate(etcd_mvcc_range_total[5m])) >= {{reads_per_second}} and sum by (job) (rate(etcd_mvcc_range_total[5m]))` +
				` >= {{reads_per_write}} * max by (job) (rate(etcd_mvcc_put_total[5m]) + rate(etcd_mvcc_delete_total[5m]))`,
			Summary: `{{ $value | humanize }} ranges a second are asked of {{ $labels.job }}, and next to nothing changes: somebody polls.`},
		{Name: "EtcdLeaseChurn", Finding: "KVD-LEASE-004", Severity: Warning, For: "10m", Next: "kvd lease list",
			Expr:    `max by (job) (rate(etcd_debugging_lease_granted_total[5m])) >= {{lease_grants}}`,
			Summary: `{{ $value | humanize }} leases a second are granted by {{ $labels.job }}: entries in every log that no history shows.`},
	}
}

func alertsOfPlaces() []Alert {
	const streams = `etcd_debugging_mvcc_watch_stream_total`
	return []Alert{
		{Name: "EtcdSlowPeers", Finding: "KVD-NET-003", Severity: Warning, For: "10m", Next: "kvd diagnose --interval 1m",
			Expr:    p99("etcd_network_peer_round_trip_time_seconds", "10m", "peer_round_trip_p99", "0.0001", "round_trips_min"),
			Summary: `Round trips from {{ $labels.instance }} to {{ $labels.To }} take {{ $value | humanizeDuration }} (p99).`},
		{Name: "EtcdClientsOnOneMember", Finding: "KVD-NET-004", Severity: Info, For: "1h", Next: "kvd diagnose",
			Expr: streams + ` / on (job) group_left () (sum by (job) (` + streams + `) >= {{clients_min}}) >= {{clients_on_one_member}}` +
				` and on (job) count by (job) (` + streams + `) > 1`,
			Summary: `{{ $value | humanizePercentage }} of all watch streams of {{ $labels.job }} are on {{ $labels.instance }}.`},
		{Name: "EtcdHealthAsked", Finding: "KVD-OPS-006", Severity: Info, For: "1h", Next: "kvd diagnose",
			Expr:    `increase(etcd_server_health_success[5m]) >= {{health_probes}}`,
			Summary: `/health of {{ $labels.instance }} is asked all the time: it fails with any alarm, and a liveness probe on it then restarts etcd.`},
		{Name: "EtcdHealthFails", Finding: "KVD-OPS-001", Severity: Warning, For: "0m", Next: "kvd alarm list",
			Expr:    `increase(etcd_server_health_failures[5m]) > 0`,
			Summary: `/health of {{ $labels.instance }} was asked and failed: a liveness probe on it would restart etcd, which frees nothing.`},
	}
}
