package drill

import "time"

// StaleReport is what was done and measured in a stale-read drill. Whatever is
// told of it is told from here.
type StaleReport struct {
	Drill     string    `json:"drill"`
	Members   int       `json:"members"`
	StartedAt time.Time `json:"started_at"`
	Endpoints []string  `json:"endpoints"`
	Dir       string    `json:"dir"`
	Key       string    `json:"key"`

	StartSeconds float64 `json:"start_seconds"` // until all members served
	Follower     string  `json:"follower"`      // who is cut off
	Leader       string  `json:"leader"`

	Before StaleReads `json:"before"` // all members connected

	// Cut off: the cluster goes on without the follower.
	CutRevision  int64         `json:"revision_at_cut"`
	Writes       int64         `json:"writes_during_cut"`
	HeadRevision int64         `json:"head_revision"`      // behind these writes
	WriteSeconds float64       `json:"write_seconds"`      // that all of them took
	Leaderless   float64       `json:"leaderless_seconds"` // from the cut until the follower knew that it has no leader
	During       StaleReads    `json:"during"`
	Refused      []RefusedRead `json:"refused"`     // reads through the follower that must not be answered
	AgeSeconds   float64       `json:"age_seconds"` // of the first write that the follower did not have, when it was read last

	// Mended.
	CaughtUpSeconds float64    `json:"caught_up_seconds"` // from the mend until the follower served a linearizable read
	After           StaleReads `json:"after"`

	Ending
}

// StaleReads are the reads of one moment.
type StaleReads struct {
	Head  int64       `json:"head_revision"` // of the cluster, at least
	Reads []ReadKinds `json:"reads"`
}

// ReadKinds are some reads of one kind through one member, one after the other.
type ReadKinds struct {
	Through   string     `json:"through"`
	Kind      string     `json:"kind"` // ReadSerializable or ReadLinearizable
	Reads     int64      `json:"reads"`
	Fresh     int64      `json:"fresh"` // that had the value of the last write
	Old       int64      `json:"old"`
	Failed    int64      `json:"failed"`
	Revision  int64      `json:"lowest_revision"`  // of the answers: what the member had applied
	Behind    int64      `json:"revisions_behind"` // of it, behind the head
	Error     string     `json:"error,omitempty"`  // of the first that failed
	Latencies []Quantile `json:"latencies"`
}

// Quantile is a latency that so many percent of the reads did not exceed.
type Quantile struct {
	Percent float64 `json:"percent"`
	Seconds float64 `json:"seconds"`
}

// RefusedRead is one read through the follower while it is cut off.
type RefusedRead struct {
	Kind        string  `json:"kind"`
	Asked       string  `json:"asked"` // in the words of etcd's client
	Answered    bool    `json:"answered"`
	Revision    int64   `json:"revision,omitempty"`
	Error       string  `json:"error,omitempty"`
	TookSeconds float64 `json:"took_seconds"`
}

// Kinds of reads.
const (
	ReadSerializable = "serializable"
	ReadLinearizable = "linearizable"
)
