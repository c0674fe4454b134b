package diagnose_test

import (
	"testing"
	"time"

	"kvd/pkg/server/servertest"
)

// Case C11: full, and a probe on /health. The answers per path are those of a real
// member, and the remedy is not to call it dead.
func TestCaseNoSpace(t *testing.T) {
	t.Parallel()
	noSpace(t, 1, 16<<20, 50)
}

func noSpace(t *testing.T, members int, quota int64, keys int) {
	t.Helper()
	c := begin(t, members, quota)
	fill(t, c.Client(t), "/registry/configmaps/a/", keys, 32<<10)
	settle(t, c)
	r := look(t, connect(t, c))
	f := finding(t, r, "KVD-SPACE-001")
	for _, id := range got(r) {
		if id != "KVD-SPACE-001 critical" && id != "KVD-SPACE-002 critical" && id != "KVD-SPACE-005 warning" {
			t.Errorf("unexpected %s", id)
		}
	}
	for path, code := range map[string]string{"/health": "503", "/health?exclude=NOSPACE": "200", "/health?serializable=true": "503", "/livez": "200", "/readyz": "200"} {
		if e := evidence(t, f, path); e.Text != code {
			t.Errorf("%s: %s, want %s", path, e.Text, code)
		}
	}
	if len(f.ExplainedBy) != 1 || f.ExplainedBy[0] != "KVD-SPACE-005" {
		t.Errorf("explained by %q", f.ExplainedBy)
	}
	if r.Has("KVD-NET-001") {
		t.Error("a member with an alarm is taken for one that is down")
	}
	kvd(t, "alarm", "recover", "--yes", "--endpoints", c.Endpoint(0))
	good := look(t, connect(t, c))
	belongs(t, good)
	remedied(t, "KVD-SPACE-001", r, good, "kvd alarm recover --yes")
	remedied(t, "KVD-SPACE-005", r, good, "kvd alarm recover --yes")
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
