package snapshot_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// recipeFor makes a recipe of the members of a cluster that was not started.
func recipeFor(c *servertest.Cluster) snapshot.Recipe {
	var r snapshot.Recipe
	for i := range c.Len() {
		r.Members = append(r.Members, snapshot.RecipeMember{Name: c.Name(i), PeerURLs: []string{c.PeerURL(i)}})
	}
	return r
}

func startRestored(t testing.TB, c *servertest.Cluster) {
	t.Helper()
	for i := range c.Len() {
		if err := c.Launch(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Three members, one plan that was written to a file, each restored by itself, as
// on three hosts: one cluster with the snapshot's content. A watch from before is
// told that it is compacted (C39).
func TestRestoredClusterOfThree(t *testing.T) {
	t.Parallel()
	file := write(t, "s.db", realRegistry(t))
	c := servertest.New(t, servertest.Options{Options: local.Options{Members: 3, Args: []string{"--unsafe-no-fsync"}}, EqualContent: true})
	planned := recipeFor(c)
	planned.BumpRevision = snapshot.AutoBump
	path := filepath.Join(t.TempDir(), "restore.yaml")
	p, err := snapshot.PlanRestore(t.Context(), snapshot.RestoreOptions{File: file, Recipe: planned}, progress.Discard)
	if err == nil {
		err = errors.Join(p.Recipe.Write(path), p.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Recipe.Write(path); fault.CauseOf(err) != "exists" {
		t.Errorf("written over a plan: %v", err)
	}
	for i := range 3 {
		r, err := snapshot.ReadRecipe(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := restoreAll(t, snapshot.RestoreOptions{File: file, Recipe: r, Here: []snapshot.RestoreTarget{{Name: c.Name(i), DataDir: c.DataDir(i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	startRestored(t, c)
	ctx, cli := servertest.Context(t, 30*time.Second), c.Client(t)
	all, err := cli.Get(ctx, "", clientv3.WithFromKey())
	if err != nil || all.Count != 573 || all.Header.Revision != 1189+snapshot.AutoBump {
		t.Fatalf("%d keys at revision %d, %v", all.Count, all.Header.Revision, err)
	}
	if _, err := cli.Put(ctx, "k", "v"); err != nil {
		t.Error(err)
	}
	resp := <-cli.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(5000))
	if !errors.Is(resp.Err(), rpctypes.ErrCompacted) {
		t.Errorf("a watch from before: %v", resp.Err())
	}
}

// Hosts that restored different files without a plan become different clusters,
// which do not mix (C38).
func TestDifferentFilesMakeDifferentClusters(t *testing.T) {
	good := realRegistry(t)
	other := append([]byte(nil), good...)
	other[1_500_000]++ // in a value
	tokens := map[string]bool{}
	for i, change := range []func(*snapshot.Recipe){
		func(*snapshot.Recipe) {}, func(*snapshot.Recipe) {},
		func(r *snapshot.Recipe) { r.BumpRevision = 1000 },
		func(r *snapshot.Recipe) { r.ClearAlarms = true },
		func(r *snapshot.Recipe) { r.Token = "own" },
		nil,
	} {
		r, content := oneMember(), good
		if change == nil {
			content = rehash(other)
		} else {
			change(&r)
		}
		p, err := snapshot.PlanRestore(t.Context(), snapshot.RestoreOptions{File: write(t, fmt.Sprint(i), content), Recipe: r}, progress.Discard)
		if err != nil {
			t.Fatal(err)
		}
		tokens[p.Recipe.Token] = true
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(tokens) != 5 || !tokens["own"] {
		t.Errorf("tokens: %v", tokens)
	}
}
