package cluster_test

import (
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/local"
)

// Members that advertise an address which leads nowhere from here, or to another of
// them, run all the same: a quorum that commits is not called lost. Where it is lost
// indeed, and the leader has not noticed yet, it is.
func TestAQuorumThatIsNotReachedIsNotLost(t *testing.T) {
	t.Parallel()
	s := three(t, local.Options{Args: []string{"--advertise-client-urls=http://127.0.0.1:9"}})
	v := view(t, connect(t, ep(s.Endpoint(1))))
	if !v.Commits || v.Leader == 0 || len(v.Silent()) != 2 || v.FailuresTolerated() != 0 {
		t.Errorf("commits %v, leader %x, members %s", v.Commits, v.Leader, names(v))
	}
	if len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "1 of 3 voters answer here") || !strings.Contains(v.Notes[0], "--endpoints that lead to m1") {
		t.Errorf("notes %q", v.Notes)
	}
	if all := view(t, connect(t, ep(s.Endpoints()...))); all.Commits || len(all.Notes) != 0 || len(all.Silent()) != 0 {
		t.Errorf("all reached: commits %v, notes %q, members %s", all.Commits, all.Notes, names(all))
	}
	leader := s.Leader(t)
	for i := range 3 {
		if i != leader {
			s.Kill(i)
		}
	}
	if v = view(t, connect(t, cluster.Config{Endpoints: []string{s.Endpoint(leader)}})); v.Commits {
		t.Errorf("two of three are dead: commits %v, notes %q", v.Commits, v.Notes)
	}
}
