//go:build long

package drill_test

import (
	"fmt"
	"testing"

	"kvd/cmd/kvd/drill"
)

// Whoever is killed, and however many there are, with etcd's own fsync.
func TestCrashMembers(t *testing.T) {
	for _, tc := range []struct {
		members int
		kill    string
		writes  int64
	}{{3, drill.KillAll, 2000}, {3, drill.KillLeader, 1500}, {3, drill.KillFollower, 1000}, {5, drill.KillAll, 1200}, {2, drill.KillAll, 500}} {
		t.Run(fmt.Sprintf("%s of %d", tc.kill, tc.members), func(t *testing.T) {
			o := crashOptions(t, tc.members, tc.kill, tc.writes)
			o.Command.Args = []string{"serve"}
			r, err := playCrash(t.Context(), t, o)
			if err != nil {
				t.Fatal(err)
			}
			checkCrash(t, o, r)
			for _, v := range r.Killed {
				if v.Fsyncs < v.Proposals/100 {
					t.Errorf("%d fsyncs for %d entries", v.Fsyncs, v.Proposals)
				}
			}
		})
	}
}

// A single member that is killed has every acknowledged write after its start,
// also those that its database did not have.
func TestCrash(t *testing.T) {
	for _, writes := range []int64{100, 700} {
		t.Run(fmt.Sprintf("%d writes", writes), func(t *testing.T) {
			t.Parallel()
			o := crashOptions(t, 1, drill.KillAll, writes)
			r, err := playCrash(t.Context(), t, o)
			if err != nil {
				t.Fatal(err)
			}
			checkCrash(t, o, r)
			if f := r.Files[0]; f.AckedNowhere != 0 || r.Starts[0].FromLeader != 0 {
				t.Errorf("a single member's files %+v, start %+v", f, r.Starts[0])
			}
		})
	}
}
