package ops_test

import (
	"testing"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// What was removed while it is waited for does not catch up any more.
func TestALearnerThatIsRemovedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	ctx := servertest.Context(t, time.Minute)
	i, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	added, err := p.Client.MemberAddAsLearner(ctx, []string{p.PeerURL(i)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.StartMember(ctx, i); err != nil {
		t.Fatal(err)
	}
	o := ops.DefaultPromoteOptions()
	o.Member = p.Name(i)
	pl, err := ops.PlanMemberPromote(p.KVD, p.view(t), o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Client.MemberRemove(ctx, added.Member.ID); err != nil {
		t.Fatal(err)
	}
	p.Forget(i)
	_, err = pl.Run(ctx, nil, progress.Discard)
	if fault.CauseOf(err) != cluster.CauseMemberNotFound || ctx.Err() != nil {
		t.Errorf("cause %q: %v", fault.CauseOf(err), err)
	}
}
