package server_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"kvd/pkg/server/servertest"
)

// wantEnd waits for a member's end and looks at its exit code and last words.
func wantEnd(t *testing.T, c *servertest.Cluster, i, code int, words ...string) {
	t.Helper()
	select {
	case <-c.Exited(i):
	case <-time.After(60 * time.Second):
		t.Fatalf("member %d still runs after 60 s", i)
	}
	if got, _ := c.ExitCode(i); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	var own strings.Builder
	for line := range strings.Lines(logOf(t, c, i)) {
		if !strings.HasPrefix(line, "{") {
			own.WriteString(line)
		}
	}
	for _, w := range words {
		if !strings.Contains(own.String(), w) {
			t.Errorf("%q is not among its last words:\n%s", w, own.String())
		}
	}
	t.Log(own.String())
}

func logOf(t *testing.T, c *servertest.Cluster, i int) string {
	t.Helper()
	raw, err := os.ReadFile(c.LogPath(i))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
