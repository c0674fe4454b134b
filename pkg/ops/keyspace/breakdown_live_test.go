package keyspace_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestLiveAndOfflineUsageAgree breaks down a running member and its file at the same
// revision: keys and bytes of every group are the same. A sample has the keys
// right, and the bytes within its error.
func TestLiveAndOfflineUsageAgree(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli, m := c.Client(t), connect(t, c, 0)
	live(t, cli, 2)
	fill(t, cli, 300, func(i int) string { return fmt.Sprintf("/registry/wgpolicyk8s.io/policyreports/ns-%d/r%d", i%4, i) }, func(int) int { return 8192 })
	fill(t, cli, 40, func(i int) string { return fmt.Sprintf("app\xff/%d", i) }, func(i int) int { return i })
	if _, err := cli.Put(t.Context(), "compact_rev_key", "1"); err != nil {
		t.Fatal(err)
	}
	commit(t, cli)
	s := keyspace.OpenLive(m, keyspace.LiveOptions{})
	for _, by := range []keyspace.By{keyspace.ByTree, keyspace.ByPrefix, keyspace.ByResource, keyspace.ByNamespace, keyspace.ByLease, keyspace.ByKind} {
		o := keyspace.DefaultBreakdownOptions()
		o.By, o.Depth, o.Exact = by, 3, true
		b, err := keyspace.BreakdownMember(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		file := breakdown(t, c.DataDir(0), keyspace.FileOptions{}, func(f *keyspace.BreakdownOptions) { f.By, f.Depth = o.By, o.Depth })
		if b.Revision != file.Revision || b.Oldest != file.Oldest || !b.Live || file.Live {
			t.Fatalf("%s: revision %d from %d, the file %d from %d", by, b.Revision, b.Oldest, file.Revision, file.Oldest)
		}
		sameLive(t, string(by), b.Total, file.Total)
		sameGroups(t, string(by), b.Groups, file.Groups)
		if by == keyspace.ByLease || by == keyspace.ByKind {
			continue
		}
		o.Exact = false
		sample, err := keyspace.BreakdownMember(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		if off := sample.Total.Live - b.Total.Live; sample.Total.Keys != b.Total.Keys || off > 2*sample.Total.LiveError+1 || -off > 2*sample.Total.LiveError+1 {
			t.Errorf("%s: a sample says %+v, all %+v", by, sample.Total, b.Total)
		}
	}
}

func sameLive(t *testing.T, what string, live, file keyspace.Amounts) {
	t.Helper()
	if live.Keys != file.Keys || live.Live != file.Live || live.History != nil || live.LiveError != 0 || live.Revisions > file.Revisions {
		t.Errorf("%s: live %+v, in the file %+v", what, live, file)
	}
}

// sameGroups leaves out what only the file knows: groups of which nothing is live.
func sameGroups(t *testing.T, what string, live, file []keyspace.Part) {
	t.Helper()
	n := 0
	for _, f := range file {
		if f.Keys == 0 {
			continue
		}
		n++
		l := part(t, live, string(f.Name))
		sameLive(t, what+" "+string(f.Name), l.Amounts, f.Amounts)
		if l.Largest == nil || l.Largest.Bytes != f.Largest.Bytes {
			t.Errorf("%s %s: the largest is %+v, in the file %+v", what, f.Name, l.Largest, f.Largest)
		}
		sameGroups(t, what, l.Groups, f.Groups)
	}
	if n != len(live) {
		t.Errorf("%s: %d groups, %d in the file", what, len(live), n)
	}
}

// TestWatchWrites counts what is written while it watches, and nothing else; and
// tells the entries of which no revision came.
func TestWatchWrites(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli, m := c.Client(t), connect(t, c, 0)
	put := func(key string) error { _, err := cli.Put(context.Background(), key, "v"); return err }
	if err := put("/registry/pods/a/before"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching := make(chan struct{}, 100)
	s := keyspace.OpenLive(m, keyspace.LiveOptions{Sink: progress.Func(func(progress.Event) { watching <- struct{}{} })})
	failed := make(chan error, 1)
	go func() {
		<-watching
		var err error
		for i := 0; i < 40 && err == nil; i++ {
			err = put("/registry/leases/kube-node-lease/n1")
		}
		for i := 0; i < 10 && err == nil; i++ {
			err = put(fmt.Sprintf("/registry/events/default/e%d", i))
		}
		for i := 0; i < 30 && err == nil; i++ {
			_, err = cli.Grant(context.Background(), 60)
		}
		if err == nil {
			_, err = cli.Delete(context.Background(), "/registry/events/", clientv3.WithPrefix())
		}
		failed <- err
		for len(watching) > 0 { // of turns that came while it was written
			<-watching
		}
		<-watching // the events came before this turn of a second, or with the next
		<-watching
		cancel()
	}()
	o := keyspace.DefaultBreakdownOptions()
	w, err := keyspace.WatchWrites(ctx, s, o, time.Hour)
	if err == nil || ctx.Err() == nil {
		t.Errorf("ended before it was told to: %v", err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if w.Total.Puts != 50 || w.Total.Deletes != 10 || w.To-w.From != 51 || w.Entries < 81 || w.Seconds <= 0 || w.Total.Changes <= 0 {
		t.Errorf("%+v", w)
	}
	g := w.Groups[0].Groups[0]
	if g.Name != "/registry/leases/" || g.Puts != 40 || g.MostRevised == nil || g.MostRevised.Key != "/registry/leases/kube-node-lease/n1" || g.MostRevised.Revisions != 40 {
		t.Errorf("%+v", g)
	}
}
