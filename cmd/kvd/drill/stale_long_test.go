//go:build long

package drill_test

import (
	"fmt"
	"strings"
	"testing"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// With more members, reads and writes, and with etcd's own fsync.
func TestStaleReadMembers(t *testing.T) {
	for _, tc := range []struct{ members, reads, writes int }{{3, 200, 100}, {5, 50, 500}, {4, 1, 1}} {
		t.Run(fmt.Sprintf("%d members, %d reads, %d writes", tc.members, tc.reads, tc.writes), func(t *testing.T) {
			o := staleOptions(t)
			o.Members, o.Reads, o.Writes = tc.members, tc.reads, tc.writes
			o.Command.Args = []string{"serve"}
			r, err := playStale(t, o)
			if err != nil {
				t.Fatal(err)
			}
			checkStale(t, o, r)
		})
	}
}

// Without the cut nothing is old, and without the mend nothing is well again:
// neither is called proved.
func TestStaleSabotaged(t *testing.T) {
	for _, tc := range []struct {
		sabotage drill.StaleSabotage
		outcome  drill.Outcome
		want     string
	}{
		{drill.StaleSabotage{NoCut: true}, drill.NotReproduced, "still knows a leader"},
		{drill.StaleSabotage{NoMend: true}, drill.NotRemedied, "serves no linearizable read"},
	} {
		t.Run(string(tc.outcome), func(t *testing.T) {
			o := staleOptions(t)
			o.Sabotage = tc.sabotage
			r, err := playStale(t, o)
			if fault.KindOf(err) != fault.Wanting || r.Outcome != tc.outcome || !strings.Contains(strings.Join(r.Missing, ""), tc.want) {
				t.Errorf("outcome %s, missing %v, error %v", r.Outcome, r.Missing, err)
			}
		})
	}
}

// A cluster that is kept needs nobody between its members.
func TestStaleKept(t *testing.T) {
	o := staleOptions(t)
	o.Keep = true
	r, err := drill.StaleRead(t.Context(), o, progress.Discard)
	if r.Kept != nil {
		t.Cleanup(func() { endKept(t, r.Kept) })
	}
	if err != nil || r.Kept == nil || len(r.Kept.PIDs) != 3 {
		t.Fatalf("%v, kept %+v", err, r.Kept)
	}
	client := connectTo(t, r.Endpoints)
	for _, m := range viewOf(t, client).Members {
		c, err := client.Member(m.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context(), r.Key); err != nil { // linearizable: it reaches the leader
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

func TestStaleRead(t *testing.T) {
	t.Parallel()
	o := staleOptions(t)
	r, err := playStale(t, o)
	if err != nil {
		t.Fatal(err)
	}
	checkStale(t, o, r)
}
