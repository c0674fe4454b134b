//go:build long

package drill_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/cmd/kvd/drill"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// With more members and writes, and with etcd's own fsync.
func TestRestoreMembers(t *testing.T) {
	for _, tc := range []struct{ members, writes int }{{3, 200}, {5, 10}, {2, 3000}, {1, 20}} {
		t.Run(fmt.Sprintf("%d members, %d writes", tc.members, tc.writes), func(t *testing.T) {
			o := restoreOptions(t, tc.members, tc.writes)
			o.Command.Args = []string{"serve"}
			r, err := playRestore(t.Context(), t, o)
			if err != nil {
				t.Fatal(err)
			}
			checkRestore(t, o, r)
		})
	}
}

// Nor one whose file is cut, or whose restored cluster lacks a key or has another
// value.
func TestRestoreSabotagedMore(t *testing.T) {
	playSabotaged(t,
		restoreSabotage{"half a file", drill.RestoreSabotage{File: func(path string) error { return os.Truncate(path, 1<<20) }},
			drill.NotReproduced, "does not restore"},
		restoreSabotage{"a key is deleted", drill.RestoreSabotage{Cluster: func(ctx context.Context, eps []string, key string) error {
			return etcdDo(eps, func(c *clientv3.Client) error { _, err := c.Delete(ctx, key); return err })
		}}, drill.NotProved, "keys that are lost: 1"},
		restoreSabotage{"a key is written again", drill.RestoreSabotage{Cluster: func(ctx context.Context, eps []string, key string) error {
			return etcdDo(eps, func(c *clientv3.Client) error { _, err := c.Put(ctx, key, "v"); return err })
		}}, drill.NotProved, "with another value, version, revision or lease: 1"},
	)
}

// Interrupted at whatever point, it leaves nothing behind.
func TestRestoreInterrupted(t *testing.T) {
	for _, at := range []string{"starting 2 members", "receiving", "writing on, watched", "copy and set up", "starting the restored members",
		"watching again from revision", "comparing key for key"} {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := restoreOptions(t, 2, 20)
			o.Keep = true // which is for drills that came to a verdict
			seen := false
			r, err := drill.Restore(ctx, o, progress.Func(func(e progress.Event) {
				if strings.HasPrefix(e.Phase, at) {
					seen = true
					cancel()
				}
			}))
			nothingLeft(t, o.Dir)
			if !seen || fault.KindOf(err) != fault.Interrupted || r.Outcome != drill.Interrupted || r.Kept != nil {
				t.Errorf("seen %v: outcome %s, kept %+v, error %v", seen, r.Outcome, r.Kept, err)
			}
		})
	}
}

// A cluster that is kept is the restored one.
func TestRestoreKept(t *testing.T) {
	o := restoreOptions(t, 3, 20)
	o.Keep = true
	r, err := drill.Restore(t.Context(), o, progress.Discard)
	if r.Kept != nil {
		t.Cleanup(func() { endKept(t, r.Kept) })
	}
	if err != nil || r.Kept == nil || len(r.Kept.PIDs) != 3 {
		t.Fatalf("%v, kept %+v", err, r.Kept)
	}
	if view := viewOf(t, connectTo(t, r.Endpoints)); view.Members[0].Status.Revision <= r.Bumped.Revision {
		t.Errorf("not above the bump, at %d: %+v", r.Bumped.Revision, view)
	}
}
