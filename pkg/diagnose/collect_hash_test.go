package diagnose

import (
	"testing"

	"kvd/pkg/ops/cluster"
)

// Hashes are compared at a revision that all who are asked have. A learner that is still
// at the beginning has no say in it, nor has one that does not answer.
func TestRevisionOfHashes(t *testing.T) {
	at := func(id uint64, revision int64) cluster.Member {
		return cluster.Member{ID: id, Status: &cluster.Status{Revision: revision}}
	}
	learner := at(4, 1)
	learner.Learner = true
	v := cluster.View{Leader: 1, Members: []cluster.Member{at(1, 5002), at(2, 5001), learner, {ID: 5}, at(3, 5003)}}
	members, rev := hashed(v)
	if len(members) != 3 || members[2].ID != 1 || rev != 5001 {
		t.Errorf("%d members at revision %d", len(members), rev)
	}
}
