package drill

import (
	"time"

	"kvd/pkg/ops/wal"
)

// CrashReport is what was done and measured in a crash drill. Whatever is told
// of it is told from here.
type CrashReport struct {
	Drill     string    `json:"drill"`
	Members   int       `json:"members"`
	Kill      string    `json:"kill"`
	StartedAt time.Time `json:"started_at"`
	Endpoints []string  `json:"endpoints"`
	Dir       string    `json:"dir"`

	// Reproduced: the load, and who was killed under it.
	StartSeconds float64       `json:"start_seconds"` // until all members served
	Load         CrashLoad     `json:"load"`
	Killed       []CrashVictim `json:"killed"`

	// Diagnosed: what stands in the files of the killed members.
	Files []CrashFiles `json:"files"`

	// Remedied: they were started again.
	Starts []CrashStart `json:"starts"`

	Proof CrashProof `json:"proof"`

	Ending
}

// CrashLoad is what was written until the kill and after it.
type CrashLoad struct {
	Writers      int     `json:"writers"`
	KeyPrefix    string  `json:"key_prefix"`
	ValueBytes   int     `json:"value_bytes"`  // of each write
	Acknowledged int64   `json:"acknowledged"` // writes that were answered, each of a key of its own
	Unanswered   int64   `json:"unanswered"`   // writes that were sent and never answered
	LastRevision int64   `json:"last_acknowledged_revision"`
	LoadSeconds  float64 `json:"load_seconds"` // until the kill

	// How etcd 3.7 commits its database unless flags say otherwise
	// (defaultBatchInterval and defaultBatchLimit in server/storage/backend).
	BatchIntervalSeconds float64 `json:"backend_batch_interval_seconds"`
	BatchLimit           int     `json:"backend_batch_limit"`
}

// CrashVictim is a killed member, and what it had done by itself a moment before.
type CrashVictim struct {
	Member    string `json:"member"`
	Role      string `json:"role"`
	Proposals int64  `json:"committed_index"` // metric etcd_server_proposals_committed_total, as the next two from its start
	Fsyncs    int64  `json:"wal_fsyncs"`      // etcd_disk_wal_fsync_duration_seconds_count
	Commits   int64  `json:"backend_commits"` // etcd_disk_backend_commit_duration_seconds_count
}

// CrashFiles is what a killed member's files hold before it starts again.
type CrashFiles struct {
	Member          string         `json:"member"`
	ConsistentIndex uint64         `json:"consistent_index"` // of the last entry applied to the database
	ConsistentTerm  uint64         `json:"consistent_term"`
	LastIndex       uint64         `json:"last_entry_index"` // where the log ends
	LastTerm        uint64         `json:"last_entry_term"`
	Commit          uint64         `json:"hard_state_commit"` // in the log's last hard state
	Behind          uint64         `json:"entries_behind_db"` // entries of the log that the database does not have
	WritesInDB      int64          `json:"writes_in_db"`      // of the load
	WritesInLog     int64          `json:"writes_only_in_log"`
	AckedInLog      int64          `json:"acknowledged_only_in_log"` // of them, those that were acknowledged: without the log they would be lost
	AckedNowhere    int64          `json:"acknowledged_in_neither"`  // that other members have
	WALBytes        int64          `json:"wal_used_bytes"`
	Torn            *wal.Damage    `json:"torn,omitempty"`
	Mismatches      []wal.Mismatch `json:"mismatches"`
}

// CrashStart is a killed member that was started again.
type CrashStart struct {
	Member          string  `json:"member"`
	TookSeconds     float64 `json:"took_seconds"` // until it served
	ConsistentIndex uint64  `json:"logged_consistent_index"`
	Applied         int64   `json:"writes_applied_since_start"` // metric etcd_mvcc_put_total, which begins at 0
	FromLog         int64   `json:"writes_from_own_log"`
	FromLeader      int64   `json:"writes_from_leader"`
	Dropped         int64   `json:"writes_dropped"` // that were in its log, never acknowledged, and replaced by a new leader
	Revision        int64   `json:"revision"`
	AppliedIndex    uint64  `json:"applied_index"`
}

// CrashProof is what was found in the end, read from every member.
type CrashProof struct {
	Members []CrashFound `json:"members"`
}

// CrashFound is what one member holds of the load.
type CrashFound struct {
	Member          string `json:"member"`
	Keys            int64  `json:"keys"`
	Revision        int64  `json:"revision"`
	ExactlyOnce     int64  `json:"acknowledged_exactly_once"` // at the acknowledged revision, version 1, with its value
	Lost            int64  `json:"acknowledged_lost"`
	Wrong           int64  `json:"acknowledged_otherwise"` // twice, at another revision, or with another value
	UnansweredThere int64  `json:"unanswered_there"`       // whole; an unanswered write may be there or not
	UnansweredHalf  int64  `json:"unanswered_half"`
	Foreign         int64  `json:"keys_never_written"`
}
