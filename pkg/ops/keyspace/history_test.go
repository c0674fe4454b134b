package keyspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"

	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/kube/codec"
	"kvd/pkg/ops/kube/keys"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// openRegistry opens the snapshot of what a real API server stored.
func openRegistry(t *testing.T) keyspace.Source {
	t.Helper()
	return openFile(t, realRegistry(t))
}

func openFile(t fataler, path string) keyspace.Source {
	t.Helper()
	src, err := keyspace.OpenFile(context.Background(), path, keyspace.FileOptions{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	if t, ok := t.(*testing.T); ok {
		t.Cleanup(func() { src.Close() }) //nolint:errcheck // only read
	}
	return src
}

func describer() keyspace.Describer {
	return keyspace.Describer{Layout: keys.Default(), Codec: codec.New()}
}

func historyOf(t fataler, src keyspace.Source, key string, show bool) []keyspace.Event {
	t.Helper()
	ignore, err := codec.ParseIgnore("managedFields")
	if err != nil {
		t.Fatalf("%v", err)
	}
	o := keyspace.HistoryOptions{Describer: describer(), Ignore: ignore}
	o.ShowValues = show
	var all []keyspace.Event
	b, n, err := keyspace.History(context.Background(), src, key, o, func(e *keyspace.Event) error {
		all = append(all, *e)
		return nil
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	if all[0].What != keyspace.Begins || all[0].Revision != b.Oldest || int64(len(all)) != n+1 {
		t.Errorf("history of %q begins with %+v, bounds %+v, %d changes", key, all[0], b, n)
	}
	return all[1:]
}

// inShort writes an event as a test wants it: "updated 941: spec.replicas 20 → 12; by kubectl(scale)".
func inShort(e *keyspace.Event) string {
	s := fmt.Sprintf("%s %d", e.What, e.Revision)
	for _, c := range e.Changes {
		s += fmt.Sprintf("; %s %v → %v", c.Path, c.Before, c.After)
	}
	for _, m := range e.By {
		s += "; by " + m.Manager
		if m.Subresource != "" {
			s += "(" + m.Subresource + ")"
		}
	}
	return s
}

// TestHistoryOfADeployment: what was done to it with kubectl, and what its
// controller made of it.
func TestHistoryOfADeployment(t *testing.T) {
	t.Parallel()
	src := openRegistry(t)
	for key, want := range map[string][]string{
		"/registry/deployments/team-0/web": {
			"created 437; by kubectl-create",
			"updated 941; metadata.generation 1 → 2; spec.replicas 20 → 12; by kubectl(scale)",
			"updated 945; status.observedGeneration 1 → 2; by kube-controller-manager(status)",
			"updated 1031; status.terminatingReplicas 2 → 0",
		},
		"/registry/deployments/team-1/web": {
			"created 445; by kubectl-create",
			"updated 913; metadata.generation 1 → 2; spec.template.metadata.annotations <nil> → map[kubectl.kubernetes.io/restartedAt:2026-11-29T12:31:15Z]; by kubectl-rollout",
		},
	} {
		var got []string
		for _, e := range historyOf(t, src, key, false) {
			got = append(got, inShort(&e))
			if e.Kind != "apps/v1 Deployment" || e.Version != int64(len(got)) {
				t.Errorf("%s: %+v", key, e)
			}
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%s: no %q among\n%s", key, w, strings.Join(got, "\n"))
			}
		}
	}
	deleted := 0
	err := src.Changes(t.Context(), keyspace.Query{From: "/registry/pods/", End: "/registry/pods0", KeysOnly: true}, func(c *keyspace.Change) error {
		if !c.Tombstone {
			return nil
		}
		deleted++
		all := historyOf(t, src, string(c.Key), false)
		if last := all[len(all)-1]; all[0].What != keyspace.Created || last.What != keyspace.Deleted {
			t.Errorf("%s: from %s to %s", c.Key, all[0].What, last.What)
		}
		return nil
	})
	if err != nil || deleted < 5 {
		t.Errorf("%d pods were deleted, %v", deleted, err)
	}
}

// TestOneValueAndSeveralLives: what a comparison of values does not see.
func TestOneValueAndSeveralLives(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1, Args: []string{"--unsafe-no-fsync"}}})
	cli := c.Client(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lease1, err := cli.Grant(t.Context(), 600)
	must(nil, err)
	lease2, err := cli.Grant(t.Context(), 600)
	must(nil, err)
	on := func(l *clientv3.LeaseGrantResponse) clientv3.OpOption { return clientv3.WithLease(l.ID) }
	put := func(key, value string, o ...clientv3.OpOption) {
		t.Helper()
		_, err := cli.Put(t.Context(), key, value, o...)
		must(nil, err)
	}
	del := func(key string) { t.Helper(); _, err := cli.Delete(t.Context(), key); must(nil, err) }

	put("k1", "v") // 2
	del("k1")
	put("k1", "v")             // re-created with the same value
	put("k2", "v")             // 5
	put("k2", "v")             // touched
	put("k3", "v", on(lease1)) // 7
	put("k3", "v", on(lease2)) // another lease
	put("k3", "v")             // none
	put("k4", "v")             // 10
	del("k4")                  // gone
	put("k5", "a")             // 12
	put("k5", "b")
	put("k5", "a") // changed back
	put("k6", "v") // 15
	_, err = cli.Txn(t.Context()).Then(clientv3.OpDelete("k6"), clientv3.OpPut("k7", "x")).Commit()
	must(nil, err)
	put("k6", "w") // 17, re-created with another one
	put("\xff\x00", "\xff")
	put("\xff\x00", "\xfe") // 19

	type history map[string][]string
	want := history{
		"k1":       {"created 2", "deleted 3", "recreated 4, with the value that it had"},
		"k2":       {"created 5", "touched 6"},
		"k3":       {"created 7 L1", "lease_changed 8 L1 → L2", "lease_changed 9 L2 → "},
		"k4":       {"created 10", "deleted 11"},
		"k5":       {"created 12", "updated 13 a → b", "updated 14 b → a"},
		"k6":       {"created 15", "deleted 16", "recreated 17"},
		"\xff\x00": {"created 18", "updated 19, 1 bytes before"},
	}
	compacted := history{ // at 13
		"k1": {"recreated or created 4"}, "k3": {"kept 9, created at revision 7; 2 puts were before this one compacted"},
		"k2": {"kept 6, created at revision 5; 1 put was before this one compacted"},
		"k4": {}, "k5": {"kept 13, created at revision 12; 1 put was before this one compacted", "updated 14 b → a"},
		"k6": {"created 15", "deleted 16", "recreated 17"}, "k7": {"created 16"},
	}
	check := func(what string, src keyspace.Source, want history) {
		t.Helper()
		for key, lines := range want {
			var got []string
			for _, e := range historyOf(t, src, key, false) {
				s := fmt.Sprintf("%s %d", e.What, e.Revision)
				if e.Lease+e.LeaseBefore != "" && e.What != keyspace.Deleted {
					name := strings.NewReplacer(fmt.Sprintf("%x", lease1.ID), "L1", fmt.Sprintf("%x", lease2.ID), "L2")
					s += " " + name.Replace(e.LeaseBefore)
					if e.LeaseBefore != "" {
						s += " → "
					}
					s += name.Replace(e.Lease)
				}
				for _, c := range e.Changes {
					s += fmt.Sprintf(" %v → %v", c.Before, c.After)
				}
				if e.Note != "" && e.What != keyspace.Deleted && e.What != keyspace.Created {
					s += ", " + e.Note
				}
				got = append(got, s)
			}
			if len(lines) == 1 && lines[0] == "recreated or created 4" {
				lines = []string{"created 4"}
			}
			if !slices.Equal(got, lines) {
				t.Errorf("%s: %q:\n got %q\nwant %q", what, key, got, lines)
			}
		}
	}
	live := keyspace.OpenLive(connect(t, c, 0), keyspace.LiveOptions{})
	commit(t, cli)
	check("live", live, want)
	check("file", openFile(t, c.DataDir(0)), want)
	if _, err := cli.Compact(t.Context(), 13, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	commit(t, cli)
	check("live, compacted", live, compacted)
	check("file, compacted", openFile(t, c.DataDir(0)), compacted)
}

// TestHistoryOfASecret: that it changed is told, and not to what.
func TestHistoryOfASecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	kv, done := store(t, path)
	key := "/registry/secrets/default/db"
	secret := `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"db"},"data":{"password":%q}}`
	for _, value := range []string{fmt.Sprintf(secret, "aHVudGVyMQ=="), fmt.Sprintf(secret, "aHVudGVyMg=="), "k8s:enc:aescbc:v1:key1:\x00\x01",
		"k8s:enc:aescbc:v1:key1:\x00\x02", "k8s:enc:aescbc:v1:key2:\x00\x03", "hunter3", "hunter4"} {
		kv.Put([]byte(key), []byte(value), lease.NoLease)
	}
	kv.Commit()
	done()
	all := historyOf(t, openFile(t, path), key, false)
	text, err := json.Marshal(all)
	if err != nil || strings.Contains(string(text), "hunter") || strings.Contains(string(text), "aHVudGVy") {
		t.Errorf("%s %v", text, err)
	}
	var got []string
	for _, e := range all {
		got = append(got, inShort(&e)+", "+e.Kind+", "+e.Note)
	}
	want := []string{
		"created 2, v1 Secret, ",
		"updated 3; data.password (masked, 7 bytes) → (masked, 7 bytes), v1 Secret, ",
		"updated 4, encrypted at rest (aescbc, key1), was v1 Secret before",
		"updated 5, encrypted at rest (aescbc, key1), what changed cannot be told",
		"updated 6, encrypted at rest (aescbc, key2), was encrypted at rest (aescbc, key1) before",
		"updated 7, bytes, was encrypted at rest (aescbc, key2) before",
		"updated 8, bytes, 7 bytes before",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	shown := historyOf(t, openFile(t, path), key, true)
	if c := shown[1].Changes; len(c) != 1 || c[0].After != "aHVudGVyMg==" {
		t.Errorf("%+v", c)
	}
}

// TestDeletedAndPutInOneTransaction, and compacted at exactly that revision, where
// servers lose the put (etcd issue 22376): what the file has is told as it is.
func TestDeletedAndPutInOneTransaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	kv, done := store(t, path)
	kv.Put([]byte("a"), []byte("1"), lease.NoLease)
	txn := kv.Write(traceutil.TODO())
	txn.DeleteRange([]byte("a"), nil)
	txn.Put([]byte("a"), []byte("2"), lease.NoLease)
	txn.End()
	kv.Commit()
	done()
	check := func(want ...string) {
		t.Helper()
		var got []string
		for _, e := range historyOf(t, openFile(t, path), "a", false) {
			got = append(got, fmt.Sprintf("%s %d/%d %s", e.What, e.Revision, e.Sub, e.Note))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check("created 2/0 ", "deleted 3/0 by whom, etcd does not keep", "recreated 3/1 in the transaction that deleted it")
	kv, done = store(t, path)
	compacted, err := kv.Compact(traceutil.TODO(), 3)
	if err != nil {
		t.Fatal(err)
	}
	<-compacted
	kv.Commit()
	done()
	check()
}

// TestAnyHistoryEndsAtWhatThereIs: a history of any key, told from its first line to
// its last, arrives at what etcd has.
func TestAnyHistoryEndsAtWhatThereIs(t *testing.T) {
	t.Parallel()
	var f features
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		h := writeHistory(t, filepath.Join(dir, fmt.Sprint("db", f.runs)), &f)
		defer os.Remove(h.path) //nolint:errcheck // the folder goes as well
		src := openFile(t, h.path)
		defer src.Close() //nolint:errcheck // only read
		now := map[string]state{}
		for _, s := range h.states[h.head] {
			now[s.key] = s
		}
		for _, key := range []string{"a", "a\x00", "b", "/registry/pods/default/web-1", "\xff", "1234567812345678"} {
			var there bool
			var version, created int64
			for _, e := range historyOf(t, src, key, false) {
				born := e.What == keyspace.Created || e.What == keyspace.Recreated
				switch {
				case e.What == keyspace.Deleted && !there, born && there:
					t.Fatalf("%q: %s at %d, though it was there: %v", key, e.What, e.Revision, there)
				case e.What == keyspace.Deleted:
					there = false
					continue
				case born:
					version, created = 0, e.Revision
				case e.What == keyspace.Kept:
					version, created = e.Version-1, e.Created
				}
				there = true
				version++
				if e.Version != version || e.Created != created {
					t.Fatalf("%q: %+v, want version %d of %d", key, e, version, created)
				}
			}
			s, ok := now[key]
			if there != ok || ok && (s.version != version || s.create != created) {
				t.Fatalf("%q: history ends at version %d of %d, there %v; etcd has %+v, %v", key, version, created, there, s, ok)
			}
		}
	})
	f.enough(t)
}

// TestOneLeaseOfManyKeys: all of them go in one revision, and each knows its place
// in it.
func TestOneLeaseOfManyKeys(t *testing.T) {
	t.Parallel()
	const n, id = 20_000, 0x5eed
	path := filepath.Join(t.TempDir(), "db")
	kv, done := store(t, path)
	txn := kv.Write(traceutil.TODO())
	for i := range n {
		txn.Put(fmt.Appendf(nil, "/registry/events/default/e%05d", i), []byte("v"), id)
	}
	txn.End()
	txn = kv.Write(traceutil.TODO())
	txn.DeleteRange([]byte("/registry/events/"), []byte("/registry/events0"))
	txn.End()
	kv.Commit()
	done()
	src := openFile(t, path)
	o := keyspace.ListOptions{Filter: keyspace.Filter{Lease: id}, Rev: 2}
	if all, _ := listOf(t, src, o); len(all) != n || all[n-1].Lease != "5eed" {
		t.Errorf("%d keys on the lease at revision 2, want %d", len(all), n)
	}
	o.Rev = 3
	if all, _ := listOf(t, src, o); len(all) != 0 {
		t.Errorf("%d keys on the lease after it ended", len(all))
	}
	e := historyOf(t, src, "/registry/events/default/e12345", false)
	if len(e) != 2 || e[0].Sub != 12345 || e[1].What != keyspace.Deleted || e[1].Sub != 12345 || e[1].LeaseBefore != "5eed" ||
		!strings.Contains(e[1].Note, "end of its lease") {
		t.Errorf("%+v", e)
	}
}
