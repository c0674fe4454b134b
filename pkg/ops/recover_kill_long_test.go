//go:build long

package ops_test

import (
	"fmt"
	"testing"

	"kvd/pkg/ops/progress"
)

// Killed at every begin and every end of a step, one after the other, on one and
// on three members.
func TestRecoverKilledAtEveryEvent(t *testing.T) {
	for _, members := range []int{1, 3} {
		p := world{members: members, quota: 16 * mib, keyFmt: "k%d"}.build(t)
		rounds := 0
		for ; ; rounds++ {
			seen := 0
			killed := p.killedAndFinished(t, func(e progress.Event) bool {
				if e.State == "" {
					return false
				}
				seen++
				return seen > rounds
			}, fmt.Sprintf("%d members, event %d", members, rounds+1))
			if !killed {
				break
			}
		}
		// Each step begins and ends: compact, closer twice, defragment, check,
		// disarm and prove at least.
		if want := 2 * (6 + members); rounds < want {
			t.Errorf("%d members: %d events, want at least %d", members, rounds, want)
		}
		t.Logf("%d members: killed at %d events", members, rounds)
	}
}
