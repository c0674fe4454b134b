package result

// Work is what a member did over a time, from the counters of its metrics.
type Work struct {
	CPU           float64 `json:"cpu_seconds"`
	FsyncP99      float64 `json:"wal_fsync_p99_seconds"`
	CommitP99     float64 `json:"backend_commit_p99_seconds"`
	LeaderChanges float64 `json:"leader_changes"`
	SlowApplies   float64 `json:"slow_applies"`
	WALBytes      float64 `json:"wal_write_bytes"`
	PeerBytes     float64 `json:"peer_sent_bytes"`
	ClientBytes   float64 `json:"client_sent_bytes"`
	PutBytes      float64 `json:"put_bytes"` // as the store counts them
}

// And is the work of two times together. Percentiles can't be added: the worse one
// stands for both.
func (w Work) And(o Work) Work {
	return Work{
		CPU:      w.CPU + o.CPU,
		FsyncP99: max(w.FsyncP99, o.FsyncP99), CommitP99: max(w.CommitP99, o.CommitP99),
		LeaderChanges: w.LeaderChanges + o.LeaderChanges, SlowApplies: w.SlowApplies + o.SlowApplies,
		WALBytes: w.WALBytes + o.WALBytes, PeerBytes: w.PeerBytes + o.PeerBytes,
		ClientBytes: w.ClientBytes + o.ClientBytes, PutBytes: w.PutBytes + o.PutBytes,
	}
}
