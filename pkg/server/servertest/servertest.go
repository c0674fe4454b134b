// Package servertest gives tests real clusters: child processes on loopback that
// are gone when the test ends, with certificates and users where a test wants them.
package servertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/server/local"
)

// Options are local.Options with what only a test wants. Command and Dir are
// filled in when empty: the kvd of this source tree (see Binary) and t.TempDir.
type Options struct {
	local.Options

	// EqualContent has the cleanup check that all running members hold the same
	// key space, by HashKV at one revision.
	EqualContent bool
}

// Cluster is a running cluster that ends with its test.
type Cluster struct {
	*local.Cluster

	tb       testing.TB
	user     string // set by EnableAuth
	password string
}

// Start starts a cluster and stops it by force when the test ends. A failed
// test gets the end of each member's log.
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	complete(tb, &o)
	lc, err := local.Start(tb.Context(), o.Options)
	if err != nil {
		tb.Fatalf("starting a cluster: %v", err)
	}
	return adopt(tb, lc, o)
}

// New is Start for a test that starts the members itself.
func New(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	complete(tb, &o)
	lc, err := local.New(o.Options)
	if err != nil {
		tb.Fatalf("preparing a cluster: %v", err)
	}
	return adopt(tb, lc, o)
}

func complete(tb testing.TB, o *Options) {
	tb.Helper()
	if o.Command.Path == "" {
		o.Command.Path = Binary(tb)
		o.Command.Args = []string{"serve"}
	}
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	// A hash of a password takes a member some 50 ms of a core, and it does one for
	// each login. No test is about how long that takes.
	o.Args = append([]string{"--bcrypt-cost=4"}, o.Args...)
}

// adopt ties a cluster to a test.
func adopt(tb testing.TB, lc *local.Cluster, o Options) *Cluster {
	c := &Cluster{Cluster: lc, tb: tb}
	tb.Cleanup(func() {
		if o.EqualContent && !tb.Failed() {
			c.CheckEqualContent(tb)
		}
		if tb.Failed() {
			for i := range c.Len() {
				tb.Logf("log of %s:\n%s", c.Name(i), c.LogTail(i, 15))
			}
		}
		if err := c.Close(); err != nil {
			tb.Errorf("closing the cluster: %v", err)
		}
		for _, line := range processesNaming(c.Root()) {
			tb.Errorf("a process is left: %s", line)
		}
	})
	return c
}

// processesNaming lists the command lines that contain text, on systems that
// have /proc. Members carry their folder in --data-dir.
func processesNaming(text string) []string {
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // has ended since
		}
		if line := strings.ReplaceAll(string(raw), "\x00", " "); strings.Contains(line, "--data-dir="+text+string(filepath.Separator)) {
			found = append(found, line)
		}
	}
	return found
}

// Context is a context of the test with a deadline.
func Context(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}
