//go:build long

package ops_test

import (
	"strings"
	"testing"

	"kvd/pkg/ops"
	"kvd/pkg/ops/fault"
)

// Where there is no room for the leases however they are packed, it is they that are
// named, and not the few live keys.
func TestRecoverNamesLeases(t *testing.T) {
	t.Parallel()
	p := world{members: 1, quota: 2 * mib, keyFmt: "/registry/pods/default/p%d"}.build(t)
	p.put(t, 20, 20, 1024)
	var err error
	for range 8 {
		p.fillWithLeases(t)
		if _, err = p.rescue(t); err != nil {
			break
		}
	}
	if fault.CauseOf(err) != ops.FindLeases || !strings.Contains(err.Error(), "leases") || strings.Contains(fault.HintOf(err), "keys delete") {
		t.Errorf("%v, hint %q", err, fault.HintOf(err))
	}
}
