package keyspace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// live writes a history through a server: puts, transactions, leases, deletions,
// re-creations and a compaction in the middle.
func live(t *testing.T, cli *clientv3.Client, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // seeded on purpose
	grant, err := cli.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		var ops []clientv3.Op
		used := map[string]bool{}
		for range 1 + rng.IntN(3) {
			key := fmt.Sprintf("/registry/pods/ns-%d/p%d", rng.IntN(3), rng.IntN(12))
			if used[key] {
				continue
			}
			used[key] = true
			switch rng.IntN(5) {
			case 0:
				ops = append(ops, clientv3.OpDelete(key))
			case 1:
				ops = append(ops, clientv3.OpPut(key, strings.Repeat("l", rng.IntN(3000)), clientv3.WithLease(grant.ID)))
			default:
				ops = append(ops, clientv3.OpPut(key, strings.Repeat("v", rng.IntN(9000))))
			}
		}
		r, err := cli.Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if i == 150 {
			if _, err := cli.Compact(t.Context(), r.Header.Revision-20, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// commit has a server write to its file what it does at its next turn of 100 ms:
// a snapshot begins with that.
func commit(t *testing.T, cli *clientv3.Client) {
	t.Helper()
	r, err := cli.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
}

// readChanges reads all changes through a source. Between the changes of one
// revision only their order is the same in a file and live.
func readChanges(t *testing.T, s keyspace.Source, q keyspace.Query) []string {
	t.Helper()
	var out []string
	err := s.Changes(t.Context(), q, func(c *keyspace.Change) error {
		out = append(out, fmt.Sprintf("%v %v %d", stateOf(&c.Item), c.Tombstone, c.Size))
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", s.Name(), err)
	}
	return out
}

// TestLiveAndItsFileAreTheSame reads a running member through its API, with and
// without streams, and through the file that it holds open.
func TestLiveAndItsFileAreTheSame(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli, m := c.Client(t), connect(t, c, 0)
	live(t, cli, 1)
	commit(t, cli)
	file, err := keyspace.OpenFile(t.Context(), c.DataDir(0), keyspace.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	if h, ok := file.Holder(); !ok || h.PID != c.PID(0) {
		t.Errorf("held by %v, %v; want process %d", h, ok, c.PID(0))
	}
	b, _ := file.Bounds(t.Context())
	paged := keyspace.LiveOptions{Memory: 50_000}
	paged.WithoutStream()
	for name, s := range map[string]keyspace.Source{"streams": keyspace.OpenLive(m, keyspace.LiveOptions{}), "pages": keyspace.OpenLive(m, paged)} {
		if got, err := s.Bounds(t.Context()); err != nil || got != b {
			t.Fatalf("%s: bounds %+v, %v; the file has %+v", name, got, err, b)
		}
		for _, rev := range []int64{b.Oldest, (b.Oldest + b.Head) / 2, b.Head, 0} {
			for _, q := range []keyspace.Query{{Rev: rev}, {Rev: rev, From: "/registry/pods/ns-1/", End: "/registry/pods/ns-10"}, {Rev: rev, From: "/none"}, {Rev: rev, KeysOnly: true}} {
				sameStates(t, fmt.Sprint(name, q), readKeys(t, s, q), readKeys(t, file, q))
			}
		}
		var loaded []string
		err := s.Keys(t.Context(), keyspace.Query{KeysOnly: true}, func(it *keyspace.Item) error {
			if err := s.Load(t.Context(), it); err != nil {
				return err
			}
			loaded = append(loaded, fmt.Sprintf("%s %d %q", it.Key, it.Lease, it.Value))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = file.Keys(t.Context(), keyspace.Query{}, func(it *keyspace.Item) error {
			if want := fmt.Sprintf("%s %d %q", it.Key, it.Lease, it.Value); len(loaded) == 0 || loaded[0] != want {
				t.Fatalf("%s: loaded are %.200q, the next should be %.200s", name, loaded, want)
			}
			loaded = loaded[1:]
			return nil
		})
		if err != nil || len(loaded) > 0 {
			t.Errorf("%s: %v, %d more than in the file", name, err, len(loaded))
		}
		for _, q := range []keyspace.Query{{}, {Rev: b.Head - 30}, {After: b.Oldest - 1}, {After: b.Head - 20, Rev: b.Head - 5}, {After: b.Head}, {From: "/registry/pods/ns-1/p3", End: "/registry/pods/ns-1/p3\x00"}, {From: "/none"}} {
			got, want := readChanges(t, s, q), readChanges(t, file, q)
			if len(got) != len(want) {
				t.Fatalf("%s: %+v: %d changes, the file has %d", name, q, len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s: %+v: change %d is\n%.200s, in the file\n%.200s", name, q, i, got[i], want[i])
				}
			}
		}
		for rev, cause := range map[int64]string{b.Oldest - 1: cluster.CauseCompacted, b.Head + 1: cluster.CauseFutureRevision} {
			q := keyspace.Query{Rev: rev}
			none := func(*keyspace.Item) error { return nil }
			if err := s.Keys(t.Context(), q, none); fault.CauseOf(err) != cause || !strings.Contains(err.Error(), fmt.Sprint(b.Head)) {
				t.Errorf("%s: keys at %d: %v, want %s", name, rev, err, cause)
			}
			if err := s.Changes(t.Context(), q, func(*keyspace.Change) error { return nil }); fault.CauseOf(err) != cause {
				t.Errorf("%s: changes to %d: %v, want %s", name, rev, err, cause)
			}
		}
	}
}

// TestACompactionOnTheWay compacts while keys are read: at the latest revision the
// rest is read at a newer one, and that is said; at one that was asked for it is
// an error.
func TestACompactionOnTheWay(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli, m := c.Client(t), connect(t, c, 0)
	const n = 600
	fill(t, cli, n, func(i int) string { return fmt.Sprintf("/k/%04d", i) }, func(int) int { return 10_000 })
	for _, pinned := range []bool{false, true} {
		said := ""
		o := keyspace.LiveOptions{Sink: progress.Func(func(e progress.Event) { said += e.Note })}
		o.WithoutStream() // pages: each is a read of its own
		s := keyspace.OpenLive(m, o)
		q := keyspace.Query{}
		if pinned {
			b, err := s.Bounds(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			q.Rev = b.Head
		}
		seen := 0
		err := s.Keys(t.Context(), q, func(it *keyspace.Item) error {
			if seen++; seen == n/2 {
				r, err := cli.Put(context.Background(), "/z", fmt.Sprint(pinned))
				if err != nil {
					return err
				}
				_, err = cli.Compact(context.Background(), r.Header.Revision, clientv3.WithCompactPhysical())
				return err
			}
			return nil
		})
		switch {
		case pinned && fault.CauseOf(err) != cluster.CauseCompacted:
			t.Errorf("at a revision: %v after %d keys", err, seen)
		case !pinned && (err != nil || seen != n+1 || !strings.Contains(said, "was compacted while it was read")):
			t.Errorf("at the latest: %v after %d keys, said %q", err, seen, said)
		}
	}
}

// TestChangesWithoutValuesKeepNone reads a history that is larger than the memory for
// sorting, and has no room to write any of it down: without values it fits.
func TestChangesWithoutValuesKeepNone(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli := c.Client(t)
	for i := range 40 {
		if _, err := cli.Put(t.Context(), fmt.Sprintf("k%d", i%8), strings.Repeat("v", 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	s := keyspace.OpenLive(connect(t, c, 0), keyspace.LiveOptions{Memory: 64 << 10, SpoolDir: t.TempDir() + "/none"})
	if got := readChanges(t, s, keyspace.Query{KeysOnly: true}); len(got) != 40 {
		t.Errorf("%d changes, want 40", len(got))
	}
	if got := readChanges(t, s, keyspace.Query{After: 39}); len(got) != 2 {
		t.Errorf("%d changes after revision 39, want those of 40 and 41", len(got))
	}
	if err := s.Changes(t.Context(), keyspace.Query{}, func(*keyspace.Change) error { return nil }); err == nil {
		t.Error("with their values they fit, too: this shows nothing")
	}
}

// TestAnExactBreakdownOutlivesCompactions compacts after every page that is read.
func TestAnExactBreakdownOutlivesCompactions(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli, m := c.Client(t), connect(t, c, 0)
	const n = 600
	fill(t, cli, n, func(i int) string { return fmt.Sprintf("/k/%04d", i) }, func(int) int { return 10_000 })
	warned := 0
	o := keyspace.LiveOptions{Sink: progress.Func(func(e progress.Event) {
		if e.Warning {
			warned++
		}
		if e.Phase != "reading keys" || e.Done == n {
			return
		}
		r, err := cli.Put(context.Background(), "/k/0000", "again")
		if err == nil {
			_, err = cli.Compact(context.Background(), r.Header.Revision, clientv3.WithCompactPhysical())
		}
		if err != nil {
			t.Error(err)
		}
	})}
	o.WithoutStream() // pages: each is a read of its own
	bo := keyspace.DefaultBreakdownOptions()
	bo.Exact = true
	b, err := keyspace.BreakdownMember(t.Context(), keyspace.OpenLive(m, o), bo)
	if err != nil || b.Total.Keys != n || warned < 2 {
		t.Errorf("%d keys, %d warnings, %v", b.Total.Keys, warned, err)
	}
}

// Who lacks a permission reads which one.
func TestDeniedReadsSayWhatIsMissing(t *testing.T) {
	err := keyspace.NeedsAllKeys(cluster.Classify("range", "m1", rpctypes.ErrPermissionDenied))
	if fault.CauseOf(err) != cluster.CausePermissionDenied || !strings.Contains(err.Error(), "read on all keys") || !strings.Contains(fault.HintOf(err), "--from-key") {
		t.Errorf("%v, %s", err, fault.HintOf(err))
	}
	if other := errors.New("other"); keyspace.NeedsAllKeys(other) != other { //nolint:errorlint // the same one
		t.Error("another error is not the same one any more")
	}
}
