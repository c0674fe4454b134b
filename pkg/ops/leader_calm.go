package ops

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

const (
	calmWindow = 500 * time.Millisecond
	calmLimit  = 10 * time.Second
	calmFsync  = 10 * time.Millisecond // etcd's own advice for the 99th percentile of WAL fsyncs
)

// waitCalm waits for a moment in which the next leader's disk is quick. From the
// moment the old leader has told it to take over until its vote for itself is on
// its disk, proposals are dropped: some 2 ms on a calm disk, and 200 ms were seen
// on one that was still writing back a defragmented file. Where the metrics don't
// tell, or it stays busy, the move is made nevertheless.
func (l *leaderMove) waitCalm(ctx context.Context, next cluster.Member) error {
	before, err := l.c.Metrics(ctx, next)
	if err != nil || !before.Has(metrics.WALFsync) {
		return nil
	}
	for limit := time.Now().Add(calmLimit); time.Now().Before(limit); {
		if err := wait.For(ctx, calmWindow); err != nil {
			return err
		}
		now, err := l.c.Metrics(ctx, next)
		if err != nil {
			return nil
		}
		h, ok := metrics.Between(before, now).Histogram(metrics.WALFsync, nil)
		if !ok || h.Count == 0 || h.Mean() <= calmFsync.Seconds() {
			return nil
		}
		l.sink.Event(progress.Event{Op: l.op, Subject: next.Label(), Phase: "waiting for a quick disk before it leads",
			Note: fmt.Sprintf("an fsync of its WAL takes %s", time.Duration(h.Mean()*float64(time.Second)).Round(time.Millisecond))})
		before = now
	}
	return nil
}
