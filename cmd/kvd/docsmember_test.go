package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kvd/pkg/server/servertest"
)

// deadForDocs kills a member and puts an ssh into the PATH which does, whatever it
// is told, what the host of that member would: it starts kvd serve, with an empty
// data dir and the arguments that kvd worked out.
func deadForDocs(ctx context.Context, t *testing.T, c *servertest.Cluster, _ string) []string {
	t.Helper()
	for c.Leader(t) == 2 { // an election is not what the page shows
		m1, err := c.Client(t).Status(ctx, c.Endpoint(0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client(t, c.Endpoint(2)).MoveLeader(ctx, m1.Header.MemberId); err != nil {
			t.Fatal(err)
		}
	}
	c.Kill(2)
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	script := "#!/bin/sh\nkvd serve $KVD_START_ARGS --unsafe-no-fsync --data-dir=" + filepath.Join(dir, "data") +
		" >" + filepath.Join(dir, "log") + " 2>&1 </dev/null &\necho $! >" + pidFile + "\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Cleanup(func() {
		raw, err := os.ReadFile(pidFile)
		if err != nil {
			return // nothing was started
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return []string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "XDG_STATE_HOME=" + dir}
}

// noQuorumForDocs kills two of three.
func noQuorumForDocs(_ context.Context, t *testing.T, c *servertest.Cluster, _ string) []string {
	t.Helper()
	c.Kill(1)
	c.Kill(2)
	return nil
}
