package k8s_test

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
)

// A cluster whose quorum is lost, one member dead and one that hangs, is told from one
// that is slow: before anything is made, and with the names of the silent.
func TestNoQuorumAtTheStart(t *testing.T) {
	t.Parallel()
	s := newStage(t, local.Options{Members: 3})
	s.Kill(2)
	if err := s.Pause(1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Resume(1) })
	r, err := loadgen.Run(t.Context(), s.client, heartbeats(10, time.Second), s.options(), nil, progress.Discard)
	if r != nil || fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != cluster.CauseNoQuorum {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := loadgen.Clean(t.Context(), s.client, loadgen.DefaultCleanOptions(), progress.Discard); fault.CauseOf(err) != cluster.CauseNoQuorum {
		t.Errorf("cleaning up: %v", err)
	}
	for _, says := range []string{"no quorum", "2 of 3", s.Name(1), s.Name(2)} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in: %v", says, err)
		}
	}
}
