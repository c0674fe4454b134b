package ops

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
	"kvd/pkg/ops/progress"
)

// What may become of a defragmentation whose answer did not come in time: by the
// samples of its metrics, one per look.
func TestFollow(t *testing.T) {
	running, before := defragMetrics(1, 4, 40, 1), defragMetrics(0, 4, 40, 1)
	for _, tc := range []struct {
		name    string
		samples []string // the last one stays; "" cannot be read
		shrinks bool
		status  func(n int) error
		state   plan.State
		cause   string
		reason  string
	}{
		{"it ends", []string{running, running, defragMetrics(0, 5, 47.5, 1)}, true, nil, plan.Done, "", "took it 7.5s"},
		{"it ended before the first look", []string{defragMetrics(0, 5, 40.25, 1)}, true, nil, plan.Done, "", "took it 250ms"},
		{"it fails", []string{running, before}, false, nil, plan.Failed, "defrag_not_done", "unchanged at 40"},
		{"it never began", []string{before}, false, nil, plan.Failed, "defrag_not_done", "never began"},
		{"the member restarts", []string{running, defragMetrics(0, 0, 0, 2)}, false, nil, plan.Failed, "defrag_not_done", "restarted"},
		{"no metrics, the status comes back", []string{""}, true, func(n int) error {
			if n < 3 {
				return errDeadline()
			}
			return nil
		}, plan.Done, "", "followed"},
		{"it hangs, and has the request still before it", []string{before, "", "", "", "", "", "", "", "", before, running, defragMetrics(0, 5, 47.5, 1)}, true, func(n int) error {
			if n < 9 {
				return errDeadline()
			}
			return nil
		}, plan.Done, "", "took it 7.5s"},
		{"no metrics, nothing gained", []string{""}, false, nil, plan.Failed, "defrag_not_done", "not smaller"},
		{"metrics only afterwards, it never began", []string{"", before}, false, nil, plan.Failed, "defrag_not_done", "not smaller"},
		{"metrics only afterwards, it ends", []string{"", running, before}, true, func(n int) error {
			if n < 2 {
				return errDeadline()
			}
			return nil
		}, plan.Done, "", "gained 30.00 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeCluster{view: fakeView(1, fakeMember{name: "a", size: 40, inUse: 10})}
			asked, looked, statuses := false, 0, 0
			f.defragment = func(id uint64) error {
				asked = true
				if tc.shrinks {
					f.shrink(id)
				}
				return errDeadline()
			}
			f.metrics = func(uint64) (string, error) {
				s := before
				if asked {
					s = tc.samples[min(looked, len(tc.samples)-1)]
					looked++
				}
				if s == "" || (!asked && tc.samples[0] == "") {
					return "", errUnreachable()
				}
				return s, nil
			}
			f.status = func(uint64) error {
				if tc.status == nil {
					return nil
				}
				statuses++
				return tc.status(statuses)
			}
			p, err := newDefragmentation(f, fast(), progress.Discard).plan(t.Context(), f.view)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), nil, progress.Discard)
			s := r.Steps[0]
			if s.State != tc.state || fault.CauseOf(err) != tc.cause || !strings.Contains(s.Reason, tc.reason) {
				t.Errorf("%s, cause %q, %q", s.State, fault.CauseOf(err), s.Reason)
			}
			if strings.Contains(fault.HintOf(err), "disk") {
				t.Errorf("no disk was full, and the hint is %q", fault.HintOf(err))
			}
			if len(f.calls) != 1 {
				t.Errorf("asked %v: a second request would be queued behind the first", f.calls)
			}
		})
	}
}

// Where nothing answers any more, nobody knows, and no other member is touched,
// whatever --continue-on-error says.
func TestUnknownOutcomeStopsEverything(t *testing.T) {
	t.Parallel()
	f := &fakeCluster{view: fakeView(1, three()...)}
	f.defragment = func(uint64) error {
		f.metrics = func(uint64) (string, error) { return "", errUnreachable() }
		f.status = func(uint64) error {
			return &fault.Error{Kind: fault.Unavailable, Cause: cluster.CauseUnreachable, Msg: "no route"}
		}
		return errDeadline()
	}
	o := fast()
	o.ContinueOnError = true
	p, err := newDefragmentation(f, o, progress.Discard).plan(t.Context(), f.view)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), nil, progress.Discard)
	errorsIs(t, err, fault.Unavailable, causeDefragUnknown)
	if len(f.calls) != 1 || r.Steps[1].State != plan.Skipped || r.Steps[2].State != plan.Skipped {
		t.Errorf("%v, %+v", f.calls, r.Steps)
	}
}

// Without metrics from before the request the status has to tell how it ended: one
// that never comes ends the wait too, although the metrics answer.
func TestMetricsWithoutAStatusAreNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{view: fakeView(1, fakeMember{name: "a", size: 40, inUse: 10})}
		f.metrics = func(uint64) (string, error) { return "", errUnreachable() }
		f.defragment = func(uint64) error {
			f.metrics = func(uint64) (string, error) { return defragMetrics(0, 0, 0, 1), nil }
			f.status = func(uint64) error { return fault.New(fault.Denied, "not permitted") }
			return errDeadline()
		}
		p, err := newDefragmentation(f, fast(), progress.Discard).plan(t.Context(), f.view)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(t.Context(), nil, progress.Discard)
		errorsIs(t, err, fault.Unavailable, causeDefragUnknown)
		if err == nil || !strings.Contains(err.Error(), "answers its metrics and not its status") || !strings.Contains(err.Error(), "not permitted") {
			t.Error(err)
		}
	})
}

// Who leaves at once, after having asked for a stop, is told that the member goes on,
// and not that nothing was changed.
func TestLeavingAtOnceIsNoWaitThatChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{view: fakeView(1, fakeMember{name: "a", size: 40, inUse: 10})}
		stop := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		f.defragment = func(uint64) error {
			close(stop)
			cancel()
			return fault.New(fault.Interrupted, "canceled")
		}
		p, err := newDefragmentation(f, fast(), progress.Discard).plan(ctx, f.view)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Run(ctx, stop, progress.Discard)
		errorsIs(t, err, fault.Interrupted, "")
		if s := r.Steps[0]; s.State != plan.Interrupted || !strings.Contains(s.Reason, "the member goes on until it is done") || strings.Contains(s.Reason, "changes nothing") {
			t.Errorf("%s, %q", s.State, s.Reason)
		}
	})
}

// A connection that breaks at once is not said to be an answer that did not come
// within the timeout.
func TestALostConnectionIsNoTimeout(t *testing.T) {
	t.Parallel()
	for cause, want := range map[string]string{cluster.CauseConnectionLost: "lost its connection after", cluster.CauseDeadline: "did not answer within 30ms"} {
		f := &fakeCluster{view: fakeView(1, fakeMember{name: "a", size: 40, inUse: 10})}
		count := 4
		f.metrics = func(uint64) (string, error) { return defragMetrics(0, count, 40, 1), nil }
		f.defragment = func(id uint64) error {
			if f.shrink(id); cause == cluster.CauseDeadline {
				time.Sleep(30 * time.Millisecond)
			}
			count++
			return &fault.Error{Kind: fault.Unavailable, Cause: cause, Msg: "gone"}
		}
		var warned string
		sink := progress.Func(func(e progress.Event) {
			if e.Warning {
				warned = e.Note
			}
		})
		o := fast()
		o.Timeout = 30 * time.Millisecond
		p, err := newDefragmentation(f, o, sink).plan(t.Context(), f.view)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Run(t.Context(), nil, sink)
		if err != nil || !strings.Contains(r.Steps[0].Reason, want) || !strings.HasPrefix(warned, want) || !strings.Contains(warned, "gone") {
			t.Errorf("%s: %v, %q, warned %q", cause, err, r.Steps[0].Reason, warned)
		}
	}
}

func TestDefragTimeoutGrowsWithWhatIsInUse(t *testing.T) {
	for inUse, want := range map[int64]string{0: "30s", 540 << 20: "1m24s", 8 << 30: "14m9s"} {
		if got := defragTimeout(inUse).String(); got != want {
			t.Errorf("%d bytes: %s, want %s", inUse, got, want)
		}
	}
}
