package diagnose

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
)

// Limits are the numbers from which on something is a finding. They stand in one
// table (Table), with their source; DefaultLimits has what that says.
type Limits struct {
	QuotaWarning, QuotaCritical   float64
	FreeRatio, FreeUsage          float64
	HistoryRatio, HistoryRevs     float64
	HistoryBytes, HistoryFrom     float64
	HistoryPerKey, NeverCompacted float64
	HistoryQuota                  float64
	NobodyCompacts, NobodyRevs    float64
	MarkerAge                     float64
	FullWithin, FullCritical      float64
	GrowthUsage, GrowthLook       float64
	ShareRatio, ShareUsage        float64
	QuotaSuggested                float64
	LagEntries, ApplyGap          float64
	LeaderChanges                 float64
	FsyncP99, CommitP99, PeerTime float64
	Observations, SlowMin         float64
	RoundTrips                    float64
	DiskRatio                     float64
	SlowApplies, ReadIndexes      float64
	SlowWatchers, PendingEvents   float64
	ClientsShare, Clients         float64
	CertWarning, CertCritical     float64
	LeaseKeys, Leases, LeaseRate  float64
	LoggedGrants, LoggedShare     float64
	ValueBytes, EndpointsBytes    float64
	ObjectBytes                   float64
	ChurnShare, ChurnRevs         float64
	WrittenShare                  float64
	BackupAge                     float64
	MemoryGrowth, MemoryRoom      float64
	MemoryFrom, MemoryRatio       float64
	WatchersPerStream             float64
	HealthProbes                  float64
	ReadRate, ReadRatio           float64
	Heartbeat, ElectionTimeout    float64
	ElectionTrips                 float64
}

// Limit is one row of the table.
type Limit struct {
	Name    string   `json:"name"`
	Value   *float64 `json:"value"`
	Unit    Unit     `json:"unit"`
	What    string   `json:"what"`
	Source  string   `json:"source"`
	Default float64  `json:"default"`
}

// The sources that several rows have.
const (
	fromHardware = "etcd's FAQ and hardware page: p99 of wal_fsync below 10 ms, of backend_commit below 25 ms"
	fromKvd      = "chosen by kvd"
	fromQuota    = "chosen by kvd, as `kvd status --exit-code`"
)

// Table lists every limit.
func (l *Limits) Table() []Limit {
	return []Limit{
		{"quota_usage_warning", &l.QuotaWarning, Ratio, "a file's share of its quota", fromQuota, 0.8},
		{"quota_usage_critical", &l.QuotaCritical, Ratio, "a file's share of its quota", fromKvd, 0.97},
		{"free_pages", &l.FreeRatio, Ratio, "free pages in a file", fromKvd + "; free pages are used again, so only with the next", 0.5},
		{"free_pages_from_usage", &l.FreeUsage, Ratio, "of its quota that such a file uses", fromKvd, 0.5},
		{"history", &l.HistoryRatio, Ratio, "old revisions in a file", fromKvd, 0.5},
		{"history_bytes", &l.HistoryBytes, Bytes, "of old revisions, below which their share is nobody's concern, unless NOSPACE is raised", "as `kvd quota`", 64 << 20},
		{"history_of_quota", &l.HistoryQuota, Ratio, "of its quota that old revisions take, below which their share is nobody's concern, unless NOSPACE is raised", fromKvd, 1. / 16},
		{"uncompacted_revisions", &l.HistoryRevs, Count, "revisions kept, from which on nobody seems to compact",
			"kube-apiserver compacts every 5 min what is older than 5 min: at 1500 writes/s, which is more than the busiest clusters write, 900,000", 1e6},
		{"history_per_key", &l.HistoryPerKey, Count, "revisions kept for each live key", fromKvd + ": node leases, the busiest keys of Kubernetes, are written 60 times in 10 min", 100},
		{"history_revisions", &l.HistoryFrom, Count, "revisions kept, below which that does not matter", fromKvd, 20000},
		{"never_compacted", &l.NeverCompacted, Count, "revisions beyond one for each live key, with nothing ever compacted: a remark", "etcd's revision mode with its customary 1000, which looks every 5 min, has compacted by then", 5000},
		{"nobody_compacts", &l.NobodyCompacts, Seconds, "without a compaction while revisions are written", "kube-apiserver compacts every 5 min, etcd's periodic compaction every hour or more often, once it has begun (getCompactInterval in v3compactor/periodic.go)", 3600},
		{"nobody_compacts_revisions", &l.NobodyRevs, Count, "revisions written in that time, below which there is nothing to compact", fromKvd, 1000},
		{"compactor_silent", &l.MarkerAge, Seconds, "since kube-apiserver's marker was written; history that is all younger than this piles up only above uncompacted_revisions, or with NOSPACE raised", "three of its compactions, one every 5 min", 900},
		{"full_within_warning", &l.FullWithin, Seconds, "until the quota is reached, at the rate between the samples", "a short sample sees what the next compaction takes away; kube-apiserver's is every 5 min", 3600},
		{"full_within_critical", &l.FullCritical, Seconds, "until the quota is reached, at the rate between the samples", "three compactions of kube-apiserver", 900},
		{"growth_from_usage", &l.GrowthUsage, Ratio, "of its quota that is in use, below which growth is a burst", fromKvd, 0.5},
		{"growth_long_look", &l.GrowthLook, Seconds, "between the samples, from which on growth is none at any usage", fromKvd, 60},
		{"share_of_live_data", &l.ShareRatio, Ratio, "of the live bytes in one resource or namespace", fromKvd, 0.5},
		{"share_from_usage", &l.ShareUsage, Ratio, "of its quota that the file uses", fromKvd, 0.5},
		{"quota_suggested_max", &l.QuotaSuggested, Bytes, "a quota", "etcd warns above 8 GiB (maxQuotaBytes in server/storage/quota.go)", 8 << 30},
		{"lag_entries", &l.LagEntries, Count, "committed entries that a member has still to receive, in both samples", "as `kvd status --wait`", 1000},
		{"apply_gap_entries", &l.ApplyGap, Count, "entries committed and not applied, in both samples",
			"etcd refuses requests above 5000 (maxGapBetweenApplyAndCommitIndex in server/etcdserver/v3_server.go)", 1000},
		{"leader_changes", &l.LeaderChanges, Count, "elections between the samples", "none is due while all is well", 1},
		{"wal_fsync_p99", &l.FsyncP99, Seconds, "p99 between the samples", fromHardware, 0.010},
		{"backend_commit_p99", &l.CommitP99, Seconds, "p99 between the samples", fromHardware, 0.025},
		{"observations_min", &l.Observations, Count, "between the samples, below which a percentile says nothing", fromKvd, 30},
		{"slow_observations_min", &l.SlowMin, Count, "above its limit, below which a p99 rests on chance", fromKvd, 5},
		{"disk_ratio", &l.DiskRatio, Count, "times its peers' p99 fsync, from which on it is one member's disk", fromKvd, 4},
		{"peer_round_trip_p99", &l.PeerTime, Seconds, "p99 between the samples", "etcd's default heartbeat interval of 100 ms is to be about the round trip; half of it is left for the rest", 0.050},
		{"heartbeat_interval", &l.Heartbeat, Seconds, "--heartbeat-interval of the members, which none of them tells", "etcd's default", 0.1},
		{"election_timeout", &l.ElectionTimeout, Seconds, "--election-timeout of the members, which none of them tells", "etcd's default", 1},
		{"election_round_trips", &l.ElectionTrips, Count, "round trips that an election timeout is to be at least", "etcd's tuning page", 10},
		{"round_trips_min", &l.RoundTrips, Count, "between the samples, below which they say nothing", "each member measures one to each peer every 5 s or so: a look of 30 s", 6},
		{"slow_applies", &l.SlowApplies, Rate, "requests that took longer than --warning-apply-duration, 100 ms", fromKvd, 1},
		{"slow_read_indexes", &l.ReadIndexes, Count, "slow or failed read indexes between the samples", fromKvd, 3},
		{"slow_watchers", &l.SlowWatchers, Count, "watchers that lag, in both samples", fromKvd, 10},
		{"pending_events", &l.PendingEvents, Count, "events read for watchers and not sent yet, in both samples", fromKvd, 10000},
		{"clients_on_one_member", &l.ClientsShare, Ratio, "of all watch streams", fromKvd, 0.9},
		{"clients_min", &l.Clients, Count, "watch streams below which their spread says nothing", fromKvd, 50},
		{"certificate_warning", &l.CertWarning, Seconds, "until a certificate expires", "as `kvd serve`", 30 * 86400},
		{"certificate_critical", &l.CertCritical, Seconds, "until a certificate expires", fromKvd, 3 * 86400},
		{"keys_on_one_lease", &l.LeaseKeys, Count, "keys that go in one revision with one lease", fromKvd + ": kube-apiserver puts 1000 events on one, see docs/how-kubernetes-uses-etcd.md", 10000},
		{"leases", &l.Leases, Count, "leases in all", fromKvd, 100000},
		{"lease_grants", &l.LeaseRate, Rate, "leases granted", fromKvd + ": each is a raft entry and a WAL record on every member", 50},
		{"logged_grants", &l.LoggedGrants, Count, "leases granted in a log", fromKvd, 2000},
		{"logged_grants_share", &l.LoggedShare, Ratio, "of the entries of a log that grant a lease", fromKvd, 0.25},
		{"value_bytes", &l.ValueBytes, Bytes, "of one key and value", "etcd's --max-request-bytes is 1.5 MiB for the whole request", 1 << 20},
		{"endpoints_bytes", &l.EndpointsBytes, Bytes, "of one Endpoints object", "about 1000 addresses, where kube-controller-manager cuts it off", 128 << 10},
		{"object_bytes", &l.ObjectBytes, Bytes, "the mean of a resource with 100 objects or more", fromKvd, 64 << 10},
		{"churn_share", &l.ChurnShare, Ratio, "of the latest revisions written to a single key", fromKvd, 0.25},
		{"churn_revisions", &l.ChurnRevs, Count, "revisions looked at, below which their spread says nothing", fromKvd, 1000},
		{"written_share", &l.WrittenShare, Ratio, "of the quota that ten minutes of what is written would take",
			fromKvd + ": a third for history, a third for what lives, a third for a burst; kube-apiserver keeps 5 to 10 min", 1. / 3},
		{"memory_growth", &l.MemoryGrowth, Bytes, "that a member's resident memory grew by between the samples", fromKvd, 512 << 20},
		{"memory_room", &l.MemoryRoom, Ratio, "of the memory that is free for it, that a database takes", "etcd maps the whole file; what does not fit is read from the disk again and again", 1},
		{"memory_from", &l.MemoryFrom, Bytes, "of resident memory, below which it is nobody's concern", fromKvd, 2 << 30},
		{"memory_ratio", &l.MemoryRatio, Count, "times the file and the index that a member has resident, in both samples", fromKvd + ": the file is mapped, Go's heap is twice what lives in it", 3},
		{"watchers_per_stream", &l.WatchersPerStream, Count, "watchers that share a stream, in the mean, where some lag",
			"a stream has a queue of 128 answers for all of its watchers (chanBufLen in server/storage/mvcc/watchable_store.go)", 128},
		{"health_probes", &l.HealthProbes, Count, "times that /health was asked between the samples", "kubelet asks every 10 s", 1},
		{"reads_per_second", &l.ReadRate, Rate, "ranges on all members, below which their share says nothing", fromKvd, 500},
		{"reads_per_write", &l.ReadRatio, Count, "ranges for each put and delete", fromKvd + ": kube-apiserver answers lists from its watch cache", 100},
		{"backup_age", &l.BackupAge, Seconds, "of the newest backup", "--max-backup-age", 86400},
	}
}

// DefaultLimits returns the table's defaults.
func DefaultLimits() Limits {
	var l Limits
	for _, row := range l.Table() {
		*row.Value = row.Default
	}
	return l
}

// Set changes limits by NAME=VALUE: a number, or a duration where the unit is
// seconds. An unknown name or a bad value is an error of kind Usage.
func (l *Limits) Set(args []string) error {
	for _, a := range args {
		name, text, _ := strings.Cut(a, "=")
		if err := l.set(name, text); err != nil {
			return err
		}
	}
	return nil
}

func (l *Limits) set(name, text string) error {
	bad := func(msg string) error {
		return &fault.Error{Kind: fault.Usage, Cause: "limit", Op: "diagnose", Msg: msg, Hint: "`kvd diagnose --explain` lists the limits; the config file may set them under defaults, limits"}
	}
	for _, row := range l.Table() {
		if row.Name != name {
			continue
		}
		v, err := parseNumber(text, row.Unit)
		if err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return bad(fmt.Sprintf("limit %s: %q is not a number of %s", name, text, row.Unit))
		}
		*row.Value = v
		return nil
	}
	return bad(fmt.Sprintf("limit %s: there is none of this name", name))
}

func parseNumber(text string, u Unit) (float64, error) {
	if u == Seconds {
		if d, err := time.ParseDuration(text); err == nil {
			return d.Seconds(), nil
		}
	}
	return strconv.ParseFloat(text, 64)
}
