package drill

import (
	"time"

	"kvd/pkg/ops/snapshot"
)

// RestoreReport is what was done and measured in a restore drill. Whatever is told
// of it is told from here.
type RestoreReport struct {
	Drill     string    `json:"drill"`
	Members   int       `json:"members"`
	StartedAt time.Time `json:"started_at"`
	Endpoints []string  `json:"endpoints"`
	Dir       string    `json:"dir"`

	// Reproduced: a snapshot, writes behind it, and the loss of everything else.
	StartSeconds       float64         `json:"start_seconds"` // until all members served
	Written            []ResourceLoad  `json:"written"`       // before the snapshot
	AcknowledgedBefore int64           `json:"acknowledged_before"`
	Snapshot           RestoreSnapshot `json:"snapshot"`
	AcknowledgedAfter  int64           `json:"acknowledged_after"`
	LastRevision       int64           `json:"last_acknowledged_revision"`
	Watcher            RestoreWatcher  `json:"watcher"`

	Diagnosis RestoreDiagnosis `json:"diagnosis"`

	// Remedied: once with the revision of the file, once lifted above all that was
	// seen, after which the watcher lists anew.
	Plain  RestoreRun    `json:"plain"`
	Bumped RestoreRun    `json:"bumped"`
	Relist RestoreRelist `json:"relist"`

	Proof RestoreProof `json:"proof"`

	Ending
}

// RestoreSnapshot is the snapshot that was taken.
type RestoreSnapshot struct {
	File        string  `json:"file"`
	Member      string  `json:"member"`
	Role        string  `json:"role"`
	SizeBytes   int64   `json:"size_bytes"`
	SHA256      string  `json:"sha256"`
	Revision    int64   `json:"revision"`
	Keys        int64   `json:"keys"`
	Leases      int64   `json:"leases"`
	KVHash      uint32  `json:"kv_hash"` // etcd's HashKV of the content
	TookSeconds float64 `json:"took_seconds"`
}

// RestoreWatcher is a client that listed and then watched.
type RestoreWatcher struct {
	Prefix       string `json:"prefix"`
	ListRevision int64  `json:"list_revision"`
	Events       int64  `json:"events"`   // heard since
	Revision     int64  `json:"revision"` // of the last of them: from here it will go on
}

// RestoreDiagnosis is what is left once the cluster is gone.
type RestoreDiagnosis struct {
	Verdict   snapshot.Verdict `json:"verdict"`
	Summary   string           `json:"summary"`
	Revision  int64            `json:"revision"`
	Ahead     int64            `json:"clients_ahead_revisions"`
	Lost      int64            `json:"acknowledged_and_lost"` // writes behind the snapshot
	Resources []LostResource   `json:"lost_resources"`
	Examples  []AckedWrite     `json:"lost_examples"` // the first of them
}

// LostResource counts the lost writes of one resource.
type LostResource struct {
	Resource string `json:"resource"`
	Writes   int64  `json:"writes"`
}

// RestoreRun is a restore of all members, and how the watcher from before fares
// then.
type RestoreRun struct {
	BumpRevision   int64        `json:"bump_revision"` // 0: the revision is left as it is
	RestoreSeconds float64      `json:"restore_seconds"`
	StartSeconds   float64      `json:"start_seconds"`
	Revision       int64        `json:"revision"` // after the start
	Keys           int64        `json:"keys"`     // under the watcher's prefix
	KVHash         uint32       `json:"kv_hash"`  // of what there is at that revision
	Get            RestoreGet   `json:"get"`
	Watch          RestoreWatch `json:"watch"`
	Writes         []Attempt    `json:"writes"` // while the watch was open
}

// RestoreGet is a read at the revision that the watcher knew.
type RestoreGet struct {
	Revision int64  `json:"revision"`
	Error    string `json:"error,omitempty"`
}

// RestoreWatch is a watch that was opened where the watcher left off, beside one
// that began with the writes.
type RestoreWatch struct {
	Through         string  `json:"through"`
	FromRevision    int64   `json:"from_revision"`
	Events          int64   `json:"events"`
	FreshEvents     int64   `json:"events_of_a_new_watch"`
	Compacted       bool    `json:"compacted"` // it was ended for that
	CompactRevision int64   `json:"compact_revision,omitempty"`
	Error           string  `json:"error,omitempty"`
	WaitedSeconds   float64 `json:"waited_seconds"` // after the new one had heard everything
}

// RestoreRelist is what the watcher did when it was told.
type RestoreRelist struct {
	Revision int64        `json:"revision"`
	Keys     int64        `json:"keys"`
	Watch    RestoreWatch `json:"watch"`
	Writes   []Attempt    `json:"writes"`
}

// RestoreProof is what was found in the end.
type RestoreProof struct {
	Members     []RestoredMember `json:"members"`
	Leases      []RestoredLease  `json:"leases"`
	Writes      []Attempt        `json:"writes"`
	HighestSeen int64            `json:"highest_revision_seen_before"` // by any client, until the second restore
}

// RestoredMember is what one member holds, against what there was when the snapshot
// was taken. A key is equal if its value, its version, both its revisions and its
// lease are.
type RestoredMember struct {
	Member          string `json:"member"`
	Revision        int64  `json:"revision"` // at which it was read
	Keys            int64  `json:"keys"`
	Equal           int64  `json:"keys_equal"`
	Otherwise       int64  `json:"keys_otherwise"`
	Lost            int64  `json:"keys_lost"`
	Foreign         int64  `json:"keys_never_there"`
	Leases          int64  `json:"leases"`
	EqualLeases     int64  `json:"leases_equal"` // same TTL, same keys, and alive
	Hash            uint32 `json:"kv_hash"`
	HashRevision    int64  `json:"kv_hash_revision"`
	CompactRevision int64  `json:"compact_revision"`
}

// RestoredLease is a lease that came back.
type RestoredLease struct {
	ID          string `json:"id"`
	TTLSeconds  int64  `json:"ttl_seconds"`
	LeftBefore  int64  `json:"left_at_snapshot_seconds"`
	LeftSeconds int64  `json:"left_seconds"`
	Keys        int64  `json:"keys"`
}
