//go:build long

package ops_test

import (
	"strings"
	"testing"

	"kvd/pkg/ops"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/plan"
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
	if fault.CauseOf(err) != ops.FindLeases || !strings.Contains(err.Error(), "leases") || strings.Contains(fault.HintOf(err), "keys delete") ||
		!strings.Contains(fault.HintOf(err), "`kvd lease revoke --without-keys") {
		t.Fatalf("%v, hint %q", err, fault.HintOf(err))
	}
	// What is named is the way out.
	before := p.view(t).Members[0].Status
	r, d, err := p.revoke(t, withoutKeys)
	if err != nil || r.Outcome != plan.OutcomeDone || d.Revoked < 20_000 || *d.After != 0 || *r.Steps[0].AfterBytes > 200<<10 {
		t.Fatalf("%s, %v, %+v", r.Outcome, err, d)
	}
	t.Logf("file %d, in use %d; %s; in use %d", before.DBSize, before.DBInUse, r.Steps[0].Reason, *r.Steps[0].AfterBytes)
	if r, err := p.rescue(t); err != nil || r.Outcome != plan.OutcomeDone {
		t.Fatalf("the rescue after it: %s, %v", r.Outcome, err)
	}
	p.writable(t)
}
