package wal_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// A voter that was added and never started counts: where it is needed for a quorum nobody
// is elected. A learner does not count, and one more of four is not needed.
func TestVerifyAVoterThatNeverStarted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		members int
		learner bool
		outcome wal.Outcome
	}{
		"one of two":              {1, false, wal.Silent},
		"a learner":               {1, true, wal.Starts},
		"one of four, not needed": {3, false, wal.Starts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := servertest.Start(t, servertest.Options{Options: local.Options{Members: tc.members, Args: []string{"--unsafe-no-fsync"}}})
			puts(t, c.Client(t), 5)
			add := c.Client(t).MemberAdd
			if tc.learner {
				add = c.Client(t).MemberAddAsLearner
			}
			deadline := time.Now().Add(30 * time.Second)
			for { // a cluster of several takes nobody in before all have seen each other
				_, err := add(t.Context(), []string{"http://127.0.0.1:1"})
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond)
			}
			for i := range tc.members {
				c.Kill(i)
			}
			v, err := wal.Verify(t.Context(), c.DataDir(0), wal.VerifyOptions{})
			if err != nil || v.Verdict.Outcome != tc.outcome {
				t.Fatalf("%+v, %v", v, err)
			}
			if tc.outcome == wal.Starts {
				return
			}
			if f := v.Worst(); f.Cause != wal.CauseGhosts || f.Severity != wal.Critical || !strings.Contains(f.Hint, "--initial-cluster-state existing") {
				t.Errorf("%+v", f)
			}
			again := &trial{t, &victim{}, filepath.Dir(filepath.Dir(c.DataDir(0))), c.DataDir(0)}
			once, err := local.New(local.Options{Command: local.Command{Path: servertest.Binary(t), Args: []string{"serve"}}, Dir: again.root, Args: []string{"--unsafe-no-fsync"}})
			again.must(err)
			defer once.Close()
			again.unanswered(t.Context(), once)
		})
	}
}
