package ops

import (
	"context"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// settlePoll is longer than the 100 ms after which etcd commits its backend, so
// that two polls in a row see two commits: sizes are refreshed only there
// (server/storage/backend, defaultBatchInterval).
const settlePoll = 300 * time.Millisecond

// settledPolls is how many polls in a row must agree on every member's sizes.
const settledPolls = 3

// waitSettled waits until every member that answers has applied what the
// cluster had committed at the call and its bytes in use no longer fall, also
// after they were counted anew. A physical compaction is answered by the member
// that was asked; the others work on at their own pace.
func waitSettled(ctx context.Context, client *cluster.Client, sink progress.Sink, op string) (cluster.View, error) {
	var committed uint64
	last := map[uint64]int64{}
	refreshed := false
	for same := 0; ; {
		view, err := client.VotersView(ctx)
		if err != nil {
			return view, err
		}
		if committed == 0 {
			committed = highestCommit(view)
		}
		if settledSince(view, committed, last) {
			same++
		} else {
			same = 0
		}
		if same >= settledPolls {
			if refreshed {
				return view, nil
			}
			refreshSizes(ctx, client, view)
			refreshed, same = true, 0
		}
		sink.Event(progress.Event{Op: op, Phase: "waiting until every member has freed its pages",
			Note: binary(largestInUse(view)) + " in use on the fullest"})
		if err := wait.For(ctx, settlePoll); err != nil {
			return view, err
		}
	}
}

// settledSince compares a view with the sizes of the one before, and records
// its own.
func settledSince(view cluster.View, committed uint64, last map[uint64]int64) bool {
	settled := true
	for _, m := range view.Answered() {
		before, seen := last[m.ID]
		last[m.ID] = m.Status.DBInUse
		if !seen || m.Status.DBInUse < before || m.Status.AppliedIndex < committed {
			settled = false
		}
	}
	return settled
}

func highestCommit(view cluster.View) uint64 {
	var top uint64
	for _, m := range view.Answered() {
		top = max(top, m.Status.RaftIndex)
	}
	return top
}

func largestInUse(view cluster.View) int64 {
	var top int64
	for _, m := range view.Answered() {
		top = max(top, m.Status.DBInUse)
	}
	return top
}
