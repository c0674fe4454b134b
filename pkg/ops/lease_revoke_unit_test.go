package ops

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/kube/keys"
)

// The gaps grow while revocations take more than twice as long as a small write did
// before, to eight times at most, and shrink again; never below what was asked for.
func TestLeasePace(t *testing.T) {
	t.Parallel()
	p := newLeasePace(100, latency{p50: time.Millisecond})
	answer := func(windows int, took time.Duration) {
		for range windows * recent {
			p.answered(took)
		}
	}
	for _, step := range []struct {
		windows int
		took    time.Duration
		gap     time.Duration
	}{{0, 0, 10 * time.Millisecond}, {3, 2 * time.Millisecond, 10 * time.Millisecond}, {1, 3 * time.Millisecond, 20 * time.Millisecond},
		{5, 3 * time.Millisecond, 80 * time.Millisecond}, {1, time.Millisecond, 40 * time.Millisecond}, {9, time.Millisecond, 10 * time.Millisecond}} {
		answer(step.windows, step.took)
		if got := p.gap(); got != step.gap {
			t.Errorf("after %d times %s: a gap of %s, want %s", step.windows*recent, step.took, got, step.gap)
		}
	}
}

func TestNamesOfLeases(t *testing.T) {
	t.Parallel()
	if got := keyNames([]string{"/registry/events/a/b", "/registry/minions/n", "\xff", "d", "e", "f"}, keys.Default()); got != `events a/b, nodes n, "\xff", "d", "e" and 1 more` {
		t.Error(got)
	}
	terms := []LeaseTerm{{Granted: 3600, Leases: 9, Least: 5, Most: 60}, {Granted: 60, Leases: 1, Least: -1, Most: -1}}
	if got := termsNote(terms, 4); got != "granted for 1h0m0s (9 leases, 5s to 1m0s left), 1m0s (1 lease, 0s left) and 2 other times" {
		t.Error(got)
	}
	if !strings.Contains(leasesHelp, "`kvd lease revoke --without-keys") {
		t.Error(leasesHelp)
	}
}
