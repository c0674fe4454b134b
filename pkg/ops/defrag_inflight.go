package ops

import (
	"context"
	"fmt"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
)

// undisturbed refuses while any member defragments, whoever asked for it, since a
// second request would be queued behind the first and then do it all again; and
// while the member itself sends its database to somebody. Members whose metrics
// can't be read have answered their status, which they don't while they
// defragment; whether they send anything is not known then.
func (d *defragmentation) undisturbed(ctx context.Context, view cluster.View, m cluster.Member) error {
	for _, other := range view.Answered() {
		s, err := d.c.Metrics(ctx, other)
		if err != nil {
			continue
		}
		if s.Defragmenting() {
			return &fault.Error{Kind: fault.Refused, Cause: "defrag_inflight", Op: "defrag", Subject: m.Label(),
				Msg:  fmt.Sprintf("gate %q: %s is being defragmented already", "none in flight", other.Label()),
				Hint: "wait until it is done (in its /metrics grpc_server_started_total and grpc_server_handled_total of the method Defragment are equal then)"}
		}
		if to := sending(s); other.ID == m.ID && to != "" {
			return &fault.Error{Kind: fault.Refused, Cause: causeSnapshotInflight, Op: "defrag", Subject: m.Label(),
				Msg:  fmt.Sprintf("gate %q: it sends its database to %s, and answers nothing from the start of a defragmentation until that has ended", "no snapshot under way", to),
				Hint: snapshotEnds}
		}
	}
	return nil
}

// causeSnapshotInflight is the cause of a refusal: a member sends its database.
const causeSnapshotInflight = "snapshot_inflight"

// snapshotEnds says how to see the end of it.
const snapshotEnds = "wait until it is sent (in its /metrics grpc_server_started_total and grpc_server_handled_total of the method Snapshot are equal then, and " +
	"etcd_network_snapshot_send_inflights_total is 0), or end it"

// sending tells to whom a member sends its database, or nothing. Either way it
// holds a read transaction: a defragmentation takes all locks of the backend, then
// closes the file, and bbolt's Close waits for readers (server/v3
// storage/backend/backend.go, defrag; bbolt db.go, Close).
func sending(s *metrics.Sample) string {
	if n, _ := s.Value(metrics.SnapshotSends, nil); n > 0 {
		return "another member"
	}
	if s.Snapshotting() {
		return "a client that takes a snapshot"
	}
	return ""
}
