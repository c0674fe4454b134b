package ops

import (
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
)

func TestSince(t *testing.T) {
	for _, tc := range []struct {
		what since
		has  []string
		not  []string
	}{
		{probesByPurpose(), []string{"3.4.29", "3.5.11", "3.5.35", "3.6.0", "3.7.3", "4.0.0", "", "x"}, []string{"3.4.23", "3.5.10", "3.3.27", "3.5.0-rc.1"}},
		{nestedPutsCount(), []string{"3.5.33", "3.6.16", "3.7.1", "3.8.0"}, []string{"3.5.32", "3.6.13", "3.7.0", "3.4.40", "3.7.0-rc.1"}},
		{commitsOnRequest(), []string{"3.5.0", "3.6.0"}, []string{"3.4.23", "3.4.40"}},
	} {
		for _, v := range tc.has {
			if !tc.what.has(v) {
				t.Errorf("%v: %q should have it", tc.what, v)
			}
		}
		for _, v := range tc.not {
			if tc.what.has(v) {
				t.Errorf("%v: %q should not have it", tc.what, v)
			}
		}
	}
}

// One member without /livez is enough: a probe written into every member's pod
// would have it restarted for ever.
func TestNospaceProbeIsOneThatEveryMemberHas(t *testing.T) {
	for versions, advice := range map[string]string{
		"3.7.3 3.6.16": "probe /livez", "3.5.11": "probe /livez", "3.7.3 3.4.23": "probe /health?exclude=NOSPACE", "3.5.10 3.5.35": "probe /health?exclude=NOSPACE",
	} {
		var all []*cluster.Status
		for _, v := range strings.Fields(versions) {
			all = append(all, sized(v, 0, 0))
		}
		if f := nospaceProbes(recordedView(all...)); !strings.Contains(f.Hint, advice) {
			t.Errorf("%s: %q, want %q", versions, f.Hint, advice)
		}
	}
}
