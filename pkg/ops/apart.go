package ops

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wait"
)

// apartPatience is how long a member may take to apply what another had committed.
const apartPatience = 5 * time.Second

// Apart tells of two members that hold different data although no CORRUPT alarm says
// so, or nothing. A revision follows from what was applied of the log, so that a
// member which has applied all that brought another to a revision, and is at a lower
// one, has another history (etcd issues 8214, 16106 and 20451 show what becomes of
// it: compactions it refuses as of a future revision, and a file that only grows).
//
// Mostly it asks nothing: the view already shows each revision beside its index. Where
// that looks wrong, which it also does for a moment while much is written, both are
// asked again in an order that makes it a proof: the revision of the one, what is
// committed after that, and then the other until it has applied as much.
func Apart(ctx context.Context, client *cluster.Client, view cluster.View) string {
	for _, low := range view.Answered() {
		for _, high := range view.Answered() {
			if low.Status.AppliedIndex < high.Status.AppliedIndex || low.Status.Revision >= high.Status.Revision {
				continue
			}
			if at, is, ok := provedApart(ctx, client, high, low); ok {
				return fmt.Sprintf("%s has applied all of the log that brought %s to revision %d and is at %d: they hold different data",
					low.Label(), high.Label(), at, is)
			}
		}
	}
	return ""
}

// provedApart returns the higher revision and the lower where they are a proof.
func provedApart(ctx context.Context, client *cluster.Client, high, low cluster.Member) (at, is int64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, apartPatience)
	defer cancel()
	hc, err := client.Member(high.ID)
	if err != nil {
		return 0, 0, false
	}
	lc, err := client.Member(low.ID)
	if err != nil {
		return 0, 0, false
	}
	top, err := hc.Status(ctx) // its revision is read before its index
	if err != nil {
		return 0, 0, false
	}
	for {
		s, err := lc.Status(ctx)
		if err != nil {
			return 0, 0, false
		}
		if s.AppliedIndex >= top.RaftIndex {
			break
		}
		if wait.For(ctx, settlePoll) != nil {
			return 0, 0, false
		}
	}
	s, err := lc.Status(ctx) // once more: the revision of that one was read before its index
	return top.Revision, s.Revision, err == nil && s.Revision < top.Revision
}

// apartErr refuses what must not be done to members that hold different data.
func apartErr(ctx context.Context, client *cluster.Client, view cluster.View, op, because string) error {
	apart := Apart(ctx, client, view)
	if apart == "" {
		return nil
	}
	return &fault.Error{Kind: fault.Refused, Cause: cluster.CauseCorrupt, Op: op, Msg: apart + "; " + because,
		Hint: "`kvd diagnose` names the one in the minority, and `kvd diff` shows what differs; take a snapshot of a member of the majority, replace the other (`kvd member replace`), then run this again"}
}
