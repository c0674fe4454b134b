package k8s_test

import (
	"testing"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
)

// atFirstWord does something when the first word of a preparation's progress comes.
type atFirstWord struct {
	do   func()
	done bool
}

func (a *atFirstWord) Event(e progress.Event) {
	if !a.done && e.Total > 0 {
		a.done = true
		a.do()
	}
}

// patience is how long the client of these tests waits for an answer.
const patience = 2 * time.Second

func newImpatientStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, local.Options{})
	client, err := cluster.Connect(cluster.Config{Endpoints: s.Endpoints(), CommandTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s.client = client
	return s
}

// A server that is gone while the load's objects are made is an error with its cause:
// the connections themselves would wait for it for ever.
func TestServerGoneWhileObjectsAreMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do    func(t *testing.T, s *stage)
		cause string
	}{
		"killed":  {func(_ *testing.T, s *stage) { s.Kill(0) }, cluster.CauseConnectionRefused},
		"stopped": {func(t *testing.T, s *stage) { pause(t, s) }, cluster.CauseNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newImpatientStage(t)
			var at time.Time
			sink := &atFirstWord{do: func() { c.do(t, s); at = time.Now() }}
			r, err := loadgen.Run(t.Context(), s.client, heartbeats(20_000, time.Second), s.options(), nil, sink)
			if r != nil || fault.KindOf(err) != fault.Unavailable || fault.CauseOf(err) != c.cause {
				t.Fatalf("%v, %v; want the cause %s", r, err, c.cause)
			}
			if took := time.Since(at); took > patience+5*time.Second {
				t.Errorf("it took %s to say so", took)
			}
		})
	}
}

func pause(t *testing.T, s *stage) {
	if err := s.Pause(0); err != nil {
		t.Error(err)
	}
	t.Cleanup(func() { _ = s.Resume(0) })
}
