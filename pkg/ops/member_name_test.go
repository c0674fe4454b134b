package ops_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/servertest"
)

// etcd keeps no name of a member before it has started, so a change that was
// interrupted then goes on under the name that the next call gives, and where no
// call gives one it is asked for, not made up.
func TestNameOfAMemberThatNeverStarted(t *testing.T) {
	t.Parallel()
	p := world{members: 1}.build(t)
	const url = "http://127.0.0.1:1"
	ctx := servertest.Context(t, 30*time.Second)
	added, err := p.Client.MemberAddAsLearner(ctx, []string{url})
	if err != nil {
		t.Fatal(err)
	}
	id, view := cluster.FormatID(added.Member.ID), p.view(t)

	// Asked for as a voter now, it is a learner all the same, and has to be promoted.
	for _, voter := range []bool{false, true} {
		o := ops.DefaultAddOptions()
		o.Name, o.PeerURLs, o.Voter = "m9", []string{url}, voter
		pl, err := ops.PlanMemberAdd(p.KVD, view, o, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		start, ok := pl.Detail.(*ops.MemberStart)
		if !ok || start.ID != id || !strings.Contains(start.Kvd, "--name=m9 ") || !strings.HasSuffix(start.InitialCluster, ",m9="+url) {
			t.Errorf("voter %v: the start line is %+v", voter, pl.Detail)
		}
		var actions []string
		for _, s := range pl.Steps {
			actions = append(actions, s.Action)
		}
		if actions[0] != "add as learner" || !slices.Contains(actions, "promote to voter") {
			t.Errorf("voter %v: steps %q", voter, actions)
		}
	}

	goOn := "kvd member add NAME --peer-urls " + url
	o := ops.DefaultPromoteOptions()
	o.Member = id
	_, err = ops.PlanMemberPromote(p.KVD, view, o, progress.Discard)
	if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != cluster.CauseNotStarted || !strings.Contains(fault.HintOf(err), goOn) {
		t.Errorf("promoted: %v; hint %s", err, fault.HintOf(err))
	}
	found := ops.ListMembers(ctx, p.KVD, view).Findings
	if len(found) != 1 || found[0].Cause != "unstarted_learner" || !strings.Contains(found[0].Hint, goOn) {
		t.Errorf("listed: %+v", found)
	}

	// A replacement without its record: the old member is gone, and the new one
	// has no name; what it was to be called is in the call.
	for newName, want := range map[string]string{"": "m2", "m7": "m7"} {
		o := ops.DefaultReplaceOptions()
		o.Member, o.NewName, o.StateDir = "m2", newName, t.TempDir()
		_, err := ops.PlanMemberReplace(p.KVD, view, o, progress.Discard)
		if want := "kvd member add " + want + " --peer-urls " + url; fault.KindOf(err) != fault.Usage || !strings.Contains(fault.HintOf(err), want) {
			t.Errorf("replaced without a record: %v; hint %s, want %q", err, fault.HintOf(err), want)
		}
	}
}
