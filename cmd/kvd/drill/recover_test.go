package drill_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
)

// The rescue, in clusters of several sizes: what is in use falls with the
// compaction, the file with the defragmentation, on every member.
func TestRecover(t *testing.T)      { recovers(t, size{3, 4 << 20}) }
func TestRecover_more(t *testing.T) { recovers(t, size{1, 7 << 20}, size{2, 5 << 20}) }

// size is that of a cluster.
type size struct {
	members int
	quota   int64 // bytes
}

func recovers(t *testing.T, sizes ...size) {
	for _, tc := range sizes {
		t.Run(fmt.Sprintf("%d members, %d MiB", tc.members, tc.quota>>20), func(t *testing.T) {
			t.Parallel()
			o := options(t, tc.members, tc.quota, drill.RemedyRecover)
			r, err := play(t.Context(), t, o)
			if err != nil {
				t.Fatal(err)
			}
			checkFull(t, o, r)
			checkProved(t, o, r)
			checkRecovered(t, o, r)
		})
	}
}

func checkRecovered(t *testing.T, o drill.Options, r drill.Report) {
	t.Helper()
	if r.Recover == nil || r.Recover.Outcome != plan.OutcomeDone {
		t.Fatalf("recover: %+v", r.Recover)
	}
	disarmed := 0
	for _, s := range r.Recover.Steps {
		if strings.HasPrefix(s.Action, "disarm") && s.State == plan.Done {
			disarmed++
		}
	}
	if disarmed != len(r.Alarms) {
		t.Errorf("%d alarms were raised, %d disarmed", len(r.Alarms), disarmed)
	}
	full, _ := r.SizesAt(drill.AtFull)
	compacted, _ := r.SizesAt(drill.AfterCompact)
	small, _ := r.SizesAt(drill.AfterDefrag)
	if len(compacted.Members) != o.Members || len(small.Members) != o.Members {
		t.Fatalf("sizes %+v", r.Sizes)
	}
	for i, m := range full.Members {
		c, d := compacted.Members[i], small.Members[i]
		if c.Name != m.Name || c.DBSize < m.DBSize || c.DBInUse > m.DBInUse/2 {
			t.Errorf("%s, file and in use: %d and %d when full, %d and %d after the compaction", m.Name, m.DBSize, m.DBInUse, c.DBSize, c.DBInUse)
		}
		if d.Name != m.Name || d.DBSize > m.DBSize/2 || d.DBSize < d.DBInUse {
			t.Errorf("%s, file and in use: %d and %d after the defragmentation", m.Name, d.DBSize, d.DBInUse)
		}
	}
}

// drop removes the steps of a plan whose action begins with one of the words.
func drop(p *plan.Plan, words ...string) {
	var kept []plan.Step
	for _, s := range p.Steps {
		if !begins(s.Action, words) {
			kept = append(kept, s)
		}
	}
	p.Steps = kept
}

func begins(action string, words []string) bool {
	for _, w := range words {
		if strings.HasPrefix(action, w) {
			return true
		}
	}
	return false
}

// idle lets the steps whose action begins with one of the words claim to be done
// without doing anything.
func idle(p *plan.Plan, words ...string) {
	for i := range p.Steps {
		if begins(p.Steps[i].Action, words) {
			p.Steps[i].Guard = nil
			p.Steps[i].Do = func(context.Context, *plan.StepResult) error { return nil }
		}
	}
}

// A drill whose remedy is sabotaged is not proved, and says what is missing,
// whatever the plan says of itself.
func TestSabotage(t *testing.T) {
	sabotaged(t, remedySabotage{"no compaction", 3, drill.RemedyRecover, func(p *plan.Plan) { drop(p, "compact") },
		drill.NotRemedied, "no compaction was carried out"})
}

type remedySabotage struct {
	name     string
	members  int
	remedy   string
	sabotage func(*plan.Plan)
	outcome  drill.Outcome
	missing  string
}

func TestSabotage_more(t *testing.T) {
	sabotaged(t, []remedySabotage{
		{"a compaction that does nothing", 1, drill.RemedyRecover, func(p *plan.Plan) { idle(p, "compact") },
			drill.NotRemedied, "which is not below 90% of its quota"},
		{"no defragmentation", 1, drill.RemedyRecover, func(p *plan.Plan) { drop(p, "defrag", "move") },
			drill.NotRemedied, "no defragmentation was carried out"},
		{"a defragmentation that does nothing", 2, drill.RemedyRecover, func(p *plan.Plan) { idle(p, "defrag") },
			drill.NotRemedied, "which is not below 90% of its quota"},
		{"no disarm, nobody looks", 1, drill.RemedyRecover, func(p *plan.Plan) { drop(p, "disarm", "prove") },
			drill.NotProved, "no write succeeds through m1"},
		{"a disarm that does nothing", 1, drill.RemedyRaiseQuota, func(p *plan.Plan) { idle(p, "disarm") },
			drill.NotProved, "NOSPACE of m1 is still raised"},
		{"a disarm and nothing else", 1, drill.RemedyRecover, func(p *plan.Plan) {
			drop(p, "compact", "defrag", "move", "check", "prove")
			for i := range p.Steps {
				p.Steps[i].Guard = nil
			}
		}, drill.NotRemedied, "no compaction was carried out"},
	}...)
}

func sabotaged(t *testing.T, cases ...remedySabotage) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := options(t, tc.members, 8<<20, tc.remedy)
			o.Sabotage = tc.sabotage
			r, err := play(t.Context(), t, o)
			if fault.KindOf(err) != fault.Wanting || r.Outcome != tc.outcome {
				t.Errorf("outcome %s, error %v", r.Outcome, err)
			}
			if !strings.Contains(strings.Join(r.Missing, "\n"), tc.missing) {
				t.Errorf("missing %q, want it to say %q", r.Missing, tc.missing)
			}
			checkFull(t, o, r)
			if r.Proof.Revision != 0 {
				t.Errorf("and yet there is a proof: %+v", r.Proof)
			}
			for _, a := range r.Proof.Writes {
				if a.Revision == 0 && a.Cause != cluster.CauseNoSpace {
					t.Errorf("the write through %s: %+v", a.Member, a)
				}
			}
		})
	}
}
