package wal

import (
	"strings"
	"testing"
)

// A learner beside the only voter is not that voter: it never makes itself the leader, so
// that a log that ends before its database is filled by the one that votes; and its data
// are nothing to restore a cluster from.
func TestALearnerIsNotTheOnlyVoter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		member   ID
		outcome  Outcome
		severity Severity
		replace  bool
	}{
		{"the voter", 1, Silent, Critical, false},
		{"the learner", 2, Starts, Critical, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := write(t, t.TempDir()+"/wal", 20, 100, 9)
			x := exam{Verification: Verification{Dir: w.dir}, applied: w.last.Index + 10}
			if err := survey(t.Context(), w.dir, false, tour{begin: x.begin, record: x.record, damaged: x.damaged, end: func(int64) {}}); err != nil {
				t.Fatal(err)
			}
			x.Member = tc.member
			x.Database = &Database{Path: "db", ConsistentIndex: w.last.Index + 10, Term: 9, ClusterVersion: "3.7.0", StorageVersion: "3.7.0",
				Members: []DatabaseMember{{ID: 1, Name: "m1"}, {ID: 2, Name: "m2", Learner: true}}}
			x.conclude(nil)
			f := x.Worst()
			if x.Verdict.Outcome != tc.outcome || f == nil || f.Cause != LogBehindDB || f.Severity != tc.severity {
				t.Fatalf("%+v, %+v", x.Verdict, x.Findings)
			}
			if strings.Contains(f.Hint, "kvd member replace m2") != tc.replace || strings.Contains(f.Hint, "kvd snapshot restore") == tc.replace {
				t.Error(f.Hint)
			}
			x.Member = 0 // as without a log
			if hint := x.remedy(); x.votesAlone() || !strings.Contains(hint, "one of several members") || !strings.Contains(hint, "the only one") {
				t.Error(hint)
			}
		})
	}
}
