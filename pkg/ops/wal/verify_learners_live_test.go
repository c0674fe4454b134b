package wal_test

import (
	"testing"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A member that runs with more learners than a start takes by default has the flag for it:
// nothing is wrong with its log. Once it has stopped nobody tells its flags.
func TestVerifyLearnersOfARunningMember(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Args: []string{"--unsafe-no-fsync", "--max-learners=2"}}})
	cl := c.Client(t)
	for _, u := range []string{"http://127.0.0.1:1", "http://127.0.0.1:2"} {
		if _, err := cl.MemberAddAsLearner(t.Context(), []string{u}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cl.Defragment(t.Context(), c.Endpoint(0)); err != nil { // it commits to the file what is in memory only
		t.Fatal(err)
	}
	verify := func() *wal.Verification {
		v, err := wal.Verify(t.Context(), c.DataDir(0), wal.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(v.Database.Members); n != 3 {
			t.Fatalf("%d members in the database", n)
		}
		return v
	}
	if v := verify(); v.Live == "" || v.Verdict.Outcome != wal.Starts {
		t.Errorf("of a running member: %+v, %+v", v.Verdict, v.Findings)
	}
	c.Kill(0)
	if v := verify(); v.Live != "" || v.Verdict.Outcome != wal.Refuses || v.Worst().Cause != wal.CauseLearners {
		t.Errorf("of a stopped member: %+v, %+v", v.Verdict, v.Findings)
	}
}
