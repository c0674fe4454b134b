//go:build long

package snapshot_test

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Stock etcd starts on what was restored, three members of one plan.
func TestStockEtcdOnRestored(t *testing.T) {
	file := write(t, "s.db", realRegistry(t))
	c := servertest.New(t, servertest.Options{Options: local.Options{Members: 3, Command: local.Command{Path: servertest.Reference(t, "etcd")}}, EqualContent: true})
	o := snapshot.RestoreOptions{File: file, Recipe: recipeFor(c)}
	for i := range 3 {
		o.Here = append(o.Here, snapshot.RestoreTarget{Name: c.Name(i), DataDir: c.DataDir(i)})
	}
	if _, err := restoreAll(t, o); err != nil {
		t.Fatal(err)
	}
	startRestored(t, c)
	all, err := c.Client(t).Get(servertest.Context(t, 30*time.Second), "", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil || all.Count != 573 || all.Header.Revision != 1189 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Files of every version that kvd meets: restored equal, and a member starts on
// them.
func TestRestoreOfEveryVersion(t *testing.T) {
	for _, version := range []string{"3.4", "3.5", "3.6"} {
		t.Run(version, func(t *testing.T) {
			c := servertest.Start(t, servertest.Options{Options: local.Options{Command: local.Command{Path: servertest.OldServer(t, version)}}})
			ctx, cli := servertest.Context(t, 60*time.Second), c.Client(t)
			lease, err := cli.Grant(ctx, 600)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 300 {
				if _, err := cli.Put(ctx, fmt.Sprint("k", i%40), fmt.Sprint(i), clientv3.WithLease(lease.ID)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := cli.Compact(ctx, 100); err != nil {
				t.Fatal(err)
			}
			stream, err := cli.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(stream)
			if err != nil {
				t.Fatal(err)
			}
			file := write(t, "s.db", content)
			data := filepath.Join(t.TempDir(), "data")
			if _, err := restore(t, file, oneMember(), snapshot.RestoreTarget{DataDir: data}); err != nil {
				t.Fatal(err)
			}
			sameContent(t, file, data, false, false)
			if v := boot(t, file, local.Command{}); v.Verdict != snapshot.Restorable || !v.Boot.Passed || v.Content.Keys != 40 {
				t.Errorf("%+v, %+v", v, v.Boot)
			}
		})
	}
}

// Of many restores to one place at the same moment one gets it, and the others are
// refused or find it done.
func TestRestoresAtOnce(t *testing.T) {
	file := write(t, "s.db", realRegistry(t))
	for range 10 {
		dir := t.TempDir()
		data := filepath.Join(dir, "data")
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() { _, errs[i] = restore(t, file, oneMember(), snapshot.RestoreTarget{DataDir: data}) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case fault.KindOf(err) != fault.Refused:
				t.Errorf("%v (%s)", err, fault.KindOf(err))
			}
		}
		if won == 0 {
			t.Errorf("nobody won: %v", errs)
		}
		sameContent(t, file, data, false, false)
		onlyIn(t, dir, "data")
	}
}
