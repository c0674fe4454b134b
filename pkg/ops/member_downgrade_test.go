package ops_test

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// While a downgrade is under way a new member can't come in: it is not added, and in a
// replacement the old one does not go. Once it is given up both may be.
func TestNobodyJoinsDuringADowngrade(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 16 * mib, keyFmt: "k%d"}.build(t)
	ctx := servertest.Context(t, time.Minute)
	i, err := p.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	check := func() (add, replace error) {
		t.Helper()
		a := ops.DefaultAddOptions()
		a.Name, a.PeerURLs = p.Name(i), []string{p.PeerURL(i)}
		pl, err := ops.PlanMemberAdd(p.KVD, p.view(t), a, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		add = pl.Check(ctx)
		r := ops.DefaultReplaceOptions()
		r.Member, r.NewName, r.PeerURLs, r.StateDir = p.Name(0), p.Name(i), []string{p.PeerURL(i)}, t.TempDir()
		if pl, err = ops.PlanMemberReplace(p.KVD, p.view(t), r, progress.Discard); err != nil {
			t.Fatal(err)
		}
		return add, pl.Check(ctx)
	}
	if _, err := p.Client.Downgrade(ctx, clientv3.DowngradeEnable, "3.6"); err != nil {
		t.Fatal(err)
	}
	add, replace := check()
	for _, err := range []error{add, replace} {
		if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != "downgrade_under_way" || !strings.Contains(err.Error(), "downgrade to 3.6.0") {
			t.Errorf("%v", err)
		}
	}
	if _, err := p.Client.Downgrade(ctx, clientv3.DowngradeCancel, ""); err != nil {
		t.Fatal(err)
	}
	if add, replace := check(); add != nil || replace != nil {
		t.Errorf("%v; %v", add, replace)
	}
}
