package diagnose_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"kvd/pkg/server/servertest"
)

// Case C11: full, and a probe on /health. The answers per path are those of a real
// member, and the remedy is not to call it dead.
func TestCaseNoSpace(t *testing.T) {
	t.Parallel()
	for i, p := range []struct {
		name  string
		shape shape
		keys  int
		probe string   // that asks again and again
		want  []string // beside NOSPACE, and history that piles up
		// What the directory tells beside the alarm.
		stored []string
		slow   bool
	}{
		{name: "one member", shape: shape{quota: 16 << 20}, keys: 50},
		{name: "one member, and a probe on /health", shape: shape{quota: 24 << 20}, keys: 10, probe: "/health", want: []string{"KVD-OPS-001 warning"}, slow: true},
		{name: "one member, and a probe on /livez", shape: shape{quota: 8 << 20}, keys: 10, probe: "/livez", slow: true},
		{name: "three, with certificates and users", shape: shape{members: 3, quota: 8 << 20, mtls: true, auth: true}, keys: 30, slow: true},
		{name: "etcd 3.5", shape: shape{quota: 8 << 20, version: "3.5"}, keys: 30, stored: []string{"KVD-VERSION-004 warning"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := p.shape.start(t)
			fill(t, c.Client(t, c.Endpoint(0)), "/registry/configmaps/a/", p.keys, 32<<10) // who refuses raises the alarm
			settle(t, c)
			end := func() {}
			if p.probe != "" {
				end = every(t, 100*time.Millisecond, ask(c.Endpoint(0)+p.probe))
			}
			client := connect(t, c)
			r := look(t, client)
			end()
			v, err := client.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := append(p.want, "KVD-SPACE-001 critical", "KVD-SPACE-005 warning")
			for range c.Len() - len(v.Alarms) { // those that have not raised it are near their quotas
				want = append(want, "KVD-SPACE-002 critical")
			}
			belongs(t, r, want...)
			f := finding(t, r, "KVD-SPACE-001")
			for path, code := range map[string]string{"/health": "503", "/health?exclude=NOSPACE": "200", "/health?serializable=true": "503", "/livez": "200", "/readyz": "200"} {
				if e := evidence(t, f, path); e.Text != code {
					t.Errorf("%s: %s, want %s", path, e.Text, code)
				}
			}
			if len(f.ExplainedBy) != 1 || f.ExplainedBy[0] != "KVD-SPACE-005" {
				t.Errorf("explained by %q", f.ExplainedBy)
			}
			stopped := filepath.Join(t.TempDir(), "stopped")
			stopAll(t, c)
			copyDir(t, c.DataDir(0), stopped)
			for range v.Alarms {
				p.stored = append(p.stored, "KVD-SPACE-001 critical")
			}
			belongs(t, lookAt(t, stopped), p.stored...)
			startsAgain(t, c, "the alarm is no reason not to")
			kvdOn(t, c, "alarm", "recover", "--yes", "--quota", fmt.Sprint(p.shape.quota))
			good := look(t, connect(t, c))
			belongs(t, good)
			if i == 0 {
				remedied(t, "KVD-SPACE-001", r, good, "kvd alarm recover --yes")
				remedied(t, "KVD-SPACE-005", r, good, "kvd alarm recover --yes")
			}
		})
	}
}

// settle waits until sizes are those of the last write: they are counted at a
// commit, at most 100 ms later.
func settle(t *testing.T, c *servertest.Cluster) {
	t.Helper()
	c.CheckEqualContent(t)
	timer := time.NewTimer(400 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}
