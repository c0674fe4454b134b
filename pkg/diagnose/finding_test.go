package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"kvd/pkg/diagnose"
)

func TestShow(t *testing.T) {
	for _, x := range []struct {
		unit diagnose.Unit
		v    float64
		want string
	}{
		{diagnose.Seconds, 0.0005, "500µs"}, {diagnose.Seconds, 0.01, "10ms"}, {diagnose.Seconds, 3.04, "3s"}, {diagnose.Seconds, 90, "1m30s"},
		{diagnose.Seconds, 600, "10m"}, {diagnose.Seconds, 3610, "1h0m10s"}, {diagnose.Seconds, 86400, "24h"}, {diagnose.Seconds, 90000, "25h"}, {diagnose.Seconds, 864000, "10 days"},
		{diagnose.Bytes, 1 << 20, "1.0 MiB"}, {diagnose.Bytes, -2048, "-2.0 KiB"}, {diagnose.Ratio, 0.825, "82.5 %"}, {diagnose.Count, 12345, "12,345"}, {diagnose.Index, 12345, "12345"}, {diagnose.Rate, 2.34, "2.3/s"},
	} {
		if got := x.unit.Show(x.v); got != x.want {
			t.Errorf("%v %s: %q, want %q", x.v, x.unit, got, x.want)
		}
	}
}

// Who wrote a key is in an API server's log only if it is an object of Kubernetes.
func TestOnlyKubernetesHasAnAuditLog(t *testing.T) {
	for key, want := range map[string]bool{"/registry/leases/kube-system/x": true, "/service/batman/leader": false, "cilium/.heartbeat": false} {
		in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits(),
			Writes: &diagnose.Writes{Member: "m1", From: 1, To: 2000, Distinct: 1, Keys: []diagnose.KeyWrites{{Key: []byte(key), Writes: 2000}}}}
		r := diagnose.Diagnose(in)
		if len(r.Findings) != 1 || strings.Contains(strings.Join(r.Findings[0].Remedy, "\n"), "audit log") != want {
			t.Errorf("%s: %+v", key, r.Findings)
		}
	}
}
