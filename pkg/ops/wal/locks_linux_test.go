package wal_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/servertest"
)

// A process that is no server and has the database locked, to read it or for itself, is
// named: a start waits for it. Once it has ended nothing is said, and of a server that
// runs neither.
func TestVerifyNamesWhoHasTheDatabaseLocked(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{})
	locked := func() (wal.Finding, bool) {
		v, err := wal.Verify(t.Context(), c.DataDir(0), wal.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(v.Findings, func(f wal.Finding) bool { return f.Cause == wal.CauseLocked })
		if i < 0 {
			return wal.Finding{}, false
		}
		return v.Findings[i], true
	}
	if f, is := locked(); is {
		t.Errorf("of a running server: %+v", f)
	}
	if err := c.StopMember(servertest.Context(t, time.Minute), 0); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"-s", "-x"} {
		holder := exec.CommandContext(t.Context(), "flock", "-F", how, filepath.Join(c.DataDir(0), "member", "snap", "db"), "sleep", "60") //nolint:gosec // a folder of ours
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		f, is := locked()
		for until := time.Now().Add(10 * time.Second); !is && time.Now().Before(until); f, is = locked() {
			time.Sleep(20 * time.Millisecond)
		}
		if want := fmt.Sprintf("process %d (sleep", holder.Process.Pid); !is || f.Severity != wal.Warning || !strings.HasPrefix(f.Says, want) || !strings.Contains(f.Says, "waits") {
			t.Errorf("flock %s: %t, %+v, want %q", how, is, f, want)
		}
		_ = holder.Process.Kill()
		_ = holder.Wait()
		if f, is := locked(); is {
			t.Errorf("flock %s has ended: %+v", how, f)
		}
	}
}
