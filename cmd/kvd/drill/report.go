package drill

import (
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/plan"
)

// Report is what was done and measured in a drill. Whatever is told of a drill
// is told from here, and from nowhere else.
type Report struct {
	Drill      string    `json:"drill"`
	Remedy     string    `json:"remedy"`
	Members    int       `json:"members"`
	QuotaBytes int64     `json:"quota_bytes"` // of each member, at the start
	StartedAt  time.Time `json:"started_at"`
	Endpoints  []string  `json:"endpoints"`
	Dir        string    `json:"dir"`

	// Reproduced.
	StartSeconds      float64         `json:"start_seconds"` // until all members served
	WritesUntilFull   int64           `json:"writes_until_full"`
	BytesUntilFull    int64           `json:"bytes_until_full"` // keys and values of these writes
	FillSeconds       float64         `json:"fill_seconds"`
	Written           []ResourceLoad  `json:"written"`
	RefusedWriteError string          `json:"refused_write_error"` // the first write that was refused, in etcd's words
	Refused           []Attempt       `json:"refused"`             // then one attempt through each member
	Compactor         CompactorReport `json:"compactor"`
	Alarms            []cluster.Alarm `json:"alarms"`

	// Diagnosed.
	Diagnosis Diagnosis `json:"diagnosis"`

	// Remedied. Which of these is there depends on the remedy.
	Recover     *plan.Report    `json:"recover,omitempty"`
	Restarts    []Restart       `json:"restarts,omitempty"`
	RaisedQuota int64           `json:"raised_quota_bytes,omitempty"`
	StillAlarms []cluster.Alarm `json:"alarms_after_restart,omitempty"`
	StillSaid   []Attempt       `json:"refused_after_restart,omitempty"`
	Disarm      *plan.Report    `json:"disarm,omitempty"`

	Sizes []Sizes `json:"sizes"`

	Proof Proof `json:"proof"`

	Ending
}

// ResourceLoad is what was written of one resource until the cluster was full.
type ResourceLoad struct {
	Resource string `json:"resource"`
	Objects  int64  `json:"objects"`
	Writes   int64  `json:"writes"`
	Bytes    int64  `json:"bytes"` // keys and values
}

// Attempt is one write of a Kubernetes object through one member.
type Attempt struct {
	Member      string  `json:"member"`
	Endpoint    string  `json:"endpoint"`
	Key         string  `json:"key"`
	Revision    int64   `json:"revision,omitempty"` // at which it was written; 0: it was not
	Cause       string  `json:"cause,omitempty"`
	Error       string  `json:"error,omitempty"`
	TookSeconds float64 `json:"took_seconds"`
}

// CompactorReport is how Kubernetes' own compactor fared.
type CompactorReport struct {
	Key         string `json:"key"`
	CompactedTo int64  `json:"compacted_to_revision"` // in the round that worked
	NextRev     int64  `json:"next_revision"`         // what it wanted to write when it was full
	Error       string `json:"error"`                 // what it got
}

// Diagnosis is what fills the files, as read from one member.
type Diagnosis struct {
	Member         string          `json:"member"`
	Oldest         int64           `json:"oldest_revision"`
	Head           int64           `json:"head_revision"`
	LiveKeys       int64           `json:"live_keys"`
	LiveBytes      int64           `json:"live_bytes"` // in the pages of a defragmented file; an estimate
	InUseBytes     int64           `json:"db_in_use_bytes"`
	HistoryBytes   int64           `json:"history_bytes"` // in use and not live
	HistoryRatio   float64         `json:"history_ratio"` // of what is in use
	FreeBytes      int64           `json:"db_free_bytes"`
	EffectiveQuota int64           `json:"effective_quota_bytes"` // the smallest of the members'
	Resources      []ResourceUsage `json:"resources"`
}

// ResourceUsage is what one resource takes, live.
type ResourceUsage struct {
	Resource  string  `json:"resource"`
	Keys      int64   `json:"keys"`
	LiveBytes int64   `json:"live_bytes"`
	History   int64   `json:"history_revisions_min"`
	Share     float64 `json:"share_ratio"` // of all live bytes
}

// Moments at which sizes are measured.
const (
	AtStart      = "started"
	AtFull       = "full"
	AfterCompact = "after_compact"
	AfterDefrag  = "after_defrag"
	AfterRestart = "after_restart"
	AtProof      = "proved"
)

// Sizes are all members' sizes at one moment.
type Sizes struct {
	Phase   string       `json:"phase"`
	Members []MemberSize `json:"members"`
}

// MemberSize is one member's file.
type MemberSize struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Role    string `json:"role"`
	DBSize  int64  `json:"db_size_bytes"`
	DBInUse int64  `json:"db_in_use_bytes"`
	Quota   int64  `json:"quota_bytes"`
}

// Restart is one member restarted with another quota.
type Restart struct {
	Member      string  `json:"member"`
	Role        string  `json:"role"`
	QuotaBefore int64   `json:"quota_before_bytes"`
	QuotaAfter  int64   `json:"quota_after_bytes"`
	TookSeconds float64 `json:"took_seconds"`
}

// Proof is the second run: writes that cost, through every member, and no alarm
// after them.
type Proof struct {
	Writes        []Attempt       `json:"writes"`
	CompactorNext int64           `json:"compactor_next_revision"` // what Kubernetes' compactor could write again
	Alarms        []cluster.Alarm `json:"alarms"`                  // after the writes
	Revision      int64           `json:"revision"`                // of the last write, read back from every member
	TookSeconds   float64         `json:"took_seconds"`
}

// SizesAt returns the sizes measured at a moment.
func (r Report) SizesAt(phase string) (Sizes, bool) {
	for _, s := range r.Sizes {
		if s.Phase == phase {
			return s, true
		}
	}
	return Sizes{}, false
}

// Fullest returns the member with the largest file.
func (s Sizes) Fullest() MemberSize {
	var top MemberSize
	for _, m := range s.Members {
		if m.DBSize > top.DBSize {
			top = m
		}
	}
	return top
}

// MostInUse returns the member with the most bytes in use.
func (s Sizes) MostInUse() MemberSize {
	var top MemberSize
	for _, m := range s.Members {
		if m.DBInUse > top.DBInUse {
			top = m
		}
	}
	return top
}
