package diagnose

import (
	"slices"
	"testing"

	"kvd/pkg/ops/keyspace"
)

// The leases that most keys of the sample are on are asked for first, none of them twice,
// and none that the leader does not have.
func TestLeasesToAsk(t *testing.T) {
	l := Leases{Asked: []LeaseLook{{ID: "7"}}, ids: map[int64]bool{5: true, 6: true, 7: true, 8: true}}
	held := []keyspace.Leased{{Lease: 5, Keys: 1}, {Lease: 6, Keys: 12000}, {Lease: 7, Keys: 90000}, {Lease: 8, Keys: 40}, {Lease: 9, Keys: 50000}}
	if got := l.toAsk(held, 2); !slices.Equal(got, []int64{6, 8}) {
		t.Errorf("asked for %v, want 6 and 8", got)
	}
	if got := l.toAsk(held, 32); !slices.Equal(got, []int64{6, 8, 5}) {
		t.Errorf("asked for %v, want 6, 8 and 5", got)
	}
}
