//go:build long

package drill_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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

// A cluster that is kept needs nobody between its members, also one that came to
// another verdict half-way.
func TestStaleKept(t *testing.T) {
	for outcome, sabotage := range map[drill.Outcome]drill.StaleSabotage{
		drill.Proved: {}, drill.NotReproduced: {NoCut: true}, drill.NotRemedied: {NoMend: true},
	} {
		t.Run(string(outcome), func(t *testing.T) {
			o := staleOptions(t)
			o.Keep, o.Sabotage = true, sabotage
			r, err := drill.StaleRead(t.Context(), o, progress.Discard)
			if r.Kept != nil {
				t.Cleanup(func() { endKept(t, r.Kept) })
			}
			if r.Outcome != outcome || r.Kept == nil || len(r.Kept.PIDs) != 3 {
				t.Fatalf("%s, %v, kept %+v", r.Outcome, err, r.Kept)
			}
			client := connectTo(t, r.Endpoints)
			for _, m := range viewOf(t, client).Members {
				c, err := client.Member(m.ID)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				if _, err := c.Etcd().Get(ctx, r.Key); err != nil { // linearizable: it reaches the leader
					t.Errorf("%s: %v", m.Name, err)
				}
				cancel()
			}
		})
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
