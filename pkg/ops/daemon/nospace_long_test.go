//go:build long

package daemon_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/lead"
	"kvd/pkg/ops/plan"
)

// fillUp writes until etcd refuses, and then compacts, so that there is
// something to gain.
func (s *stage) fillUp(t *testing.T) {
	t.Helper()
	value := strings.Repeat("x", 512<<10)
	var rev int64
	for i := 0; ; i++ {
		r, err := s.cli.Put(t.Context(), "freed/one", value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil || i > 500 {
			t.Fatal(i, err)
		}
		rev = r.Header.Revision
	}
	if _, err := s.cli.Compact(t.Context(), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	until(t, "NOSPACE is raised and what was compacted is free everywhere", func() bool {
		for i := range s.Len() {
			// Where nobody can write, a member counts anew when a snapshot is begun. One
			// that is not ended keeps a defragmentation from ending.
			ctx, cancel := context.WithCancel(t.Context())
			if r, err := s.Client(t, s.Endpoint(i)).Snapshot(ctx); err == nil {
				_, _ = r.Read(make([]byte, 1))
			}
			cancel()
			st, err := s.cli.Status(t.Context(), s.Endpoint(i))
			if err != nil || len(st.Errors) == 0 || st.DbSize-st.DbSizeInUse < 4<<20 {
				return false
			}
		}
		return true
	})
}

// TestTwoSchedulersFromBeforeNoSpace: the winner is known before the emergency.
func TestTwoSchedulersFromBeforeNoSpace(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, 16<<20, 1)
	compete(t, s, func() { s.fillUp(t) })
}

// TestTwoSchedulersFromNoSpace: started without a lease to be had, they look
// whether anybody is at it.
func TestTwoSchedulersFromNoSpace(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, 16<<20, 1)
	s.fillUp(t)
	blindly(t, s)
}

// blindly is compete where nobody holds an election. Two whose last looks fall
// into the same moment both ask the same member, which is then done twice, one
// after the other, and stop there.
func blindly(t *testing.T, s *stage) {
	t.Helper()
	g, release := newGate()
	rivals := []*rival{s.rival(t, g, nil), s.rival(t, g, nil)}
	for _, r := range rivals {
		until(t, "waits for its tick", func() bool { return r.logs.FilterMessage("next run").Len() > 0 })
	}
	before := s.completed(t)
	watched := s.watch(t)
	release()
	for _, r := range rivals {
		until(t, "has run or been told why not", r.decided)
	}
	if _, more := watched(); more > 0 {
		t.Errorf("two members were defragmented at once: %d samples", more)
	}
	// A tie: both have begun with the same member, and then seen each other.
	tied := rivals[0].did(plan.Failed) > 0 && rivals[1].did(plan.Failed) > 0
	total := uint64(0)
	for i, n := range s.completed(t) {
		total += n - before[i]
		if n == before[i] && !tied {
			t.Errorf("%s was not defragmented", s.Name(i))
		}
	}
	if total > uint64(s.Len())+1 {
		t.Errorf("%d defragmentations of %d members", total, s.Len())
	}
	for _, r := range rivals {
		if r.did(plan.Done) == 0 {
			reason, why := r.told()
			r.mu.Lock()
			if len(r.reports) == 0 && reason != lead.CauseBusy {
				t.Errorf("did nothing and was told %q: %s", reason, why)
			}
			r.mu.Unlock()
		}
		r.end(t)
	}
}

// TestWatchSeesTwo: the look at what is in flight can find something.
func TestWatchSeesTwo(t *testing.T) {
	t.Parallel()
	s := newStage(t, 3, 0, 96)
	watched := s.watch(t)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			if _, err := s.Client(t, s.Endpoint(i)).Defragment(t.Context(), s.Endpoint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if one, more := watched(); more == 0 {
		t.Errorf("two defragmentations at once were not seen: %d samples", one)
	}
}
