package keyspace_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestAnInterruptedHistoryEndsAtOnce cancels while the watch is waited for. Whether
// its end or that of the context is seen first is left to chance, so it is done often.
func TestAnInterruptedHistoryEndsAtOnce(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli, m := c.Client(t), connect(t, c, 0)
	fill(t, cli, 20, func(i int) string { return fmt.Sprint("k", i) }, func(int) int { return 10 })
	for range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		s := keyspace.OpenLive(m, keyspace.LiveOptions{Sink: progress.Func(func(e progress.Event) {
			if e.Phase == "reading history" {
				cancel()
			}
		})})
		began := time.Now()
		err := s.Changes(ctx, keyspace.Query{}, func(*keyspace.Change) error { return nil })
		if took := time.Since(began); fault.KindOf(err) != fault.Interrupted && !errors.Is(err, context.Canceled) || took > 2*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		cancel()
	}
}

// TestWritesOfAMemberThatIsGone watches a member that is killed meanwhile: that
// nothing came from it does not say that nothing was written.
func TestWritesOfAMemberThatIsGone(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	m := connect(t, c, 0)
	var once sync.Once
	s := keyspace.OpenLive(m, keyspace.LiveOptions{Sink: progress.Func(func(progress.Event) { once.Do(func() { c.Kill(0) }) })})
	w, err := keyspace.WatchWrites(t.Context(), s, keyspace.DefaultBreakdownOptions(), 3*time.Second)
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v, with %+v", err, w)
	}
}
