//go:build long

package wal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvd/pkg/ops/wal"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// What is said of the data directories of older servers is what etcd 3.7 does on
// them: up to 3.5 they told of themselves in a form that it cannot apply. What is then
// advised helps.
func TestVerdictsOfOldServers(t *testing.T) {
	t.Parallel()
	stock := local.Command{Path: servertest.Reference(t, "etcd")}
	for version, outcome := range map[string]wal.Outcome{"3.4": wal.Refuses, "3.5": wal.Refuses, "3.6": wal.Starts} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := servertest.Start(t, servertest.Options{Options: local.Options{Command: local.Command{Path: servertest.OldServer(t, version)}}})
			puts(t, c.Client(t), 20)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(c.StopMember(t.Context(), 0))
			holdCopy(t, c, 21, outcome, stock)
			if outcome == wal.Starts {
				return
			}
			must(c.StartMember(t.Context(), 0, "--snapshot-count=10"))
			puts(t, c.Client(t), 20)
			must(c.StopMember(t.Context(), 0))
			holdCopy(t, c, 41, wal.Starts, stock)
		})
	}
}

// holdCopy holds the verdict on a copy of a stopped member's data against what etcd
// does on it.
func holdCopy(t *testing.T, c *servertest.Cluster, revision int64, outcome wal.Outcome, stock local.Command) {
	t.Helper()
	root := t.TempDir()
	copied := &trial{t, &victim{revision: revision}, root, filepath.Join(root, "m1", "data")}
	copied.must(os.CopyFS(copied.data, os.DirFS(c.DataDir(0))))
	v, err := wal.Verify(t.Context(), copied.data, wal.VerifyOptions{})
	copied.must(err)
	if v.Verdict.Outcome != outcome {
		t.Errorf("%+v, %+v", v.Verdict, v.Findings)
	}
	if f := v.Worst(); outcome == wal.Refuses && (f == nil || f.Cause != wal.CauseForeign || !strings.Contains(f.Hint, "--snapshot-count 10")) {
		t.Errorf("%+v", f)
	}
	copied.hold(v, stock)
}
