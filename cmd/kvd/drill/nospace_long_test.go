//go:build long

package drill_test

import (
	"fmt"
	"testing"

	"kvd/cmd/kvd/drill"
)

// Larger clusters and larger quotas, with both remedies.
func TestNospaceLarge(t *testing.T) {
	for _, tc := range []struct {
		members int
		quota   int64
		remedy  string
	}{{5, 16 << 20, drill.RemedyRecover}, {3, 64 << 20, drill.RemedyRecover}, {4, 24 << 20, drill.RemedyRaiseQuota}} {
		t.Run(fmt.Sprintf("%d members, %d MiB, %s", tc.members, tc.quota>>20, tc.remedy), func(t *testing.T) {
			o := options(t, tc.members, tc.quota, tc.remedy)
			r, err := play(t.Context(), t, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d writes, full after %.1f s, proved after %.1f s", r.WritesUntilFull, r.FillSeconds, r.TookSeconds)
			checkFull(t, o, r)
			checkProved(t, o, r)
			if tc.remedy == drill.RemedyRecover {
				checkRecovered(t, o, r)
			}
		})
	}
}

// What make demo runs is proved within a minute. Here and not in the script of
// the command, where whatever runs beside it would be measured too.
func TestNospaceWithinAMinute(t *testing.T) {
	o := options(t, 3, 16<<20, drill.RemedyRecover)
	r, err := play(t.Context(), t, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.TookSeconds >= 60 {
		t.Errorf("proved after %.1f s (full after %.1f s), want less than 60", r.TookSeconds, r.FillSeconds)
	}
}
