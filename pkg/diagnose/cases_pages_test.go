package diagnose_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// Case C19: a transaction deletes and puts the same keys, and a compaction to its
// own revision takes the fresh ones. A range that was only deleted is no such case,
// and neither is a compaction to another revision.
func TestCaseFreshKeysGone(t *testing.T) {
	t.Parallel()
	gone := []string{"KVD-CORRUPT-006 critical"}
	for i, p := range []struct {
		name  string
		shape shape
		who   role
		fresh bool
		keys  []string
		after int64 // revisions between the transaction and the compaction
		want  []string
		slow  bool
	}{
		{name: "two keys", fresh: true, keys: []string{"a", "b"}, want: gone},
		{name: "deleted only", keys: []string{"a", "b"}},
		{name: "binary keys", fresh: true, keys: []string{"\x01", "\xfe\xff", "z"}, want: gone},
		{name: "a follower of three, with certificates and users", shape: shape{members: 3, mtls: true, auth: true}, who: follower, fresh: true, keys: []string{"a", "b"}, want: gone, slow: true},
		{name: "compacted one revision later", fresh: true, keys: []string{"a", "b"}, after: 1, slow: true},
		{name: "etcd 3.6, which loses them too", shape: shape{version: "3.6"}, fresh: true, keys: []string{"a", "b"}, want: gone, slow: true},
		{name: "etcd 3.4, which keeps them", shape: shape{version: "3.4"}, fresh: true, keys: []string{"a", "b"}, want: []string{"KVD-VERSION-004 warning"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := p.shape.start(t)
			rev := rewrite(t, c, p.keys, p.fresh)
			client, ctx := c.Client(t), servertest.Context(t, time.Minute)
			put(t, client, "later", int(p.after), 1, 1)
			if _, err := client.Compact(ctx, rev+p.after, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
			settleDisk(t)
			who := pick(t, c, p.who)
			stopAll(t, c)
			r := lookAt(t, c.DataDir(who))
			belongs(t, r, p.want...)
			if !r.Has("KVD-CORRUPT-006") {
				keeps(t, c, p.keys, p.fresh)
				return
			}
			f := finding(t, r, "KVD-CORRUPT-006")
			if evidence(t, f, "compacted to").Value != float64(rev) || evidence(t, f, "live keys").Value != 0 {
				t.Errorf("%+v", f.Evidence)
			}
			if i == 0 {
				shows(t, r, "KVD-CORRUPT-006")
			}
		})
	}
}

// Case C19 while it runs: the member ends when it is read from, and that is told. One
// that keeps its keys lives on.
func TestCaseEndsWhenRead(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name  string
		shape shape
		fresh bool
		keys  []string
		slow  bool
	}{
		{name: "two keys", fresh: true, keys: []string{"a", "b"}},
		{name: "deleted only", keys: []string{"a", "b"}},
		{name: "three members, with certificates and users", shape: shape{members: 3, mtls: true, auth: true}, fresh: true, keys: []string{"\x01", "z"}, slow: true},
		{name: "etcd 3.6", shape: shape{version: "3.6"}, fresh: true, keys: []string{"a", "b", "c"}, slow: true},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, p.slow)
			c := p.shape.start(t)
			rev := rewrite(t, c, p.keys, p.fresh)
			if _, err := c.Client(t).Compact(servertest.Context(t, time.Minute), rev, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
			r := look(t, connect(t, c))
			if !p.fresh {
				belongs(t, r)
				return
			}
			f := finding(t, r, "KVD-CORRUPT-005")
			if f.Severity != diagnose.Critical || evidence(t, f, "since").Text != "connection_refused" {
				t.Errorf("%+v", f)
			}
		})
	}
}

// keeps fails the test unless a cluster that starts again has its keys.
func keeps(t *testing.T, c *servertest.Cluster, keys []string, has bool) {
	t.Helper()
	startsAgain(t, c, "it starts")
	for _, k := range keys {
		got, err := c.Client(t).Get(servertest.Context(t, time.Minute), k)
		if err != nil || len(got.Kvs) == 1 != has {
			t.Errorf("%s: %v, %v", k, got, err)
		}
	}
}

// rewrite puts keys, deletes everything in one transaction, and puts them again in it
// if they are to be fresh. It returns the transaction's revision.
func rewrite(t *testing.T, c *servertest.Cluster, keys []string, fresh bool) int64 {
	t.Helper()
	client, ctx := c.Client(t), servertest.Context(t, time.Minute)
	then := []clientv3.Op{clientv3.OpDelete("\x00", clientv3.WithFromKey())}
	for _, k := range keys {
		if _, err := client.Put(ctx, k, "1"); err != nil {
			t.Fatal(err)
		}
		if fresh {
			then = append(then, clientv3.OpPut(k, "2"))
		}
	}
	resp, err := client.Txn(ctx).Then(then...).Commit()
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// Case C64: a page of the database points where it must not, or says that it holds
// more than it does. Of a directory and of a snapshot.
func TestCaseWildPointers(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name  string
		shape shape
		who   role
		keys  int
		slow  bool
	}{
		{name: "one member", keys: 2000},
		{name: "a follower of three, with certificates", shape: shape{members: 3, mtls: true}, who: follower, keys: 1500, slow: true},
		{name: "etcd 3.6", shape: shape{version: "3.6"}, keys: 3000, slow: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			besideOthers(t, s.slow)
			c := s.shape.start(t)
			put(t, c.Client(t), "k", s.keys, s.keys, 100)
			settleDisk(t)
			who := pick(t, c, s.who)
			stopAll(t, c)
			belongs(t, lookAt(t, c.DataDir(who)))
			for i, p := range pokes() {
				if i > 1 && !slow {
					break
				}
				dir := filepath.Join(t.TempDir(), "data")
				copyDir(t, c.DataDir(who), dir)
				db := filepath.Join(dir, "member", "snap", "db")
				p.do(t, db)
				t.Log(p.name)
				r := lookAt(t, dir)
				belongs(t, r, "KVD-CORRUPT-005 critical")
				if i == 0 && !s.slow {
					shows(t, r, "KVD-CORRUPT-005")
				}
				in := &diagnose.Input{At: time.Now(), Limits: diagnose.DefaultLimits()}
				if err := in.AddFile(t.Context(), db, diagnose.DirOptions{}, discard); err != nil {
					t.Fatal(err)
				}
				belongs(t, diagnose.Diagnose(in), "KVD-CORRUPT-005 critical")
			}
		})
	}
}

type pokeAt struct {
	name string
	do   func(t *testing.T, db string)
}

// A page is a header of 16 bytes (its number, flags, how many elements, how many pages
// more), and the elements: of a branch page 16 bytes each, with the child's number in
// the last 8.
func pokes() []pokeAt {
	child := func(i int) int64 { return 16 + 16*int64(i) + 8 }
	return []pokeAt{
		{"out of bounds", func(t *testing.T, db string) {
			t.Helper()
			overwrite(t, db, pageOf(t, db, "branch")+child(0), number(1e15))
		}},
		{"to itself", func(t *testing.T, db string) {
			t.Helper()
			at := pageOf(t, db, "branch")
			overwrite(t, db, at+child(0), read(t, db, at, 8))
		}},
		{"to its neighbour's page", func(t *testing.T, db string) {
			t.Helper()
			at := pageOf(t, db, "branch")
			overwrite(t, db, at+child(0), read(t, db, at+child(1), 8))
		}},
		{"65535 elements", func(t *testing.T, db string) {
			t.Helper()
			at := pageOf(t, db, "branch") + child(0)
			leaf := int64(binary.LittleEndian.Uint64(read(t, db, at, 8))) * pageSize(t, db) //nolint:gosec // far below 2^63
			overwrite(t, db, leaf+10, []byte{0xff, 0xff})
		}},
	}
}

func number(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func read(t *testing.T, path string, at int64, n int) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was read
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	return b
}

func pageSize(t *testing.T, path string) int64 {
	t.Helper()
	return int64(binary.LittleEndian.Uint32(read(t, path, 16+8, 4))) // of the first meta page: magic, version, page size
}

// pageOf is the place of the first page of a type.
func pageOf(t *testing.T, path, kind string) int64 {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	at := int64(0)
	err = db.View(func(tx *bolt.Tx) error {
		for id := 2; at == 0; id++ {
			p, err := tx.Page(id)
			if err != nil || p == nil {
				return fmt.Errorf("no %s page: %w", kind, err)
			}
			if p.Type == kind {
				at = int64(id * db.Info().PageSize)
			}
		}
		return nil
	})
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	return at
}

// Case C38: members restored from different snapshots form a cluster.
func TestCaseRestoredFromDifferent(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name    string
		shape   shape
		from    string // the snapshot of each member
		subject string
		says    []string
	}{
		{name: "the third of three", from: "aab", subject: "m3", says: []string{"50 apart"}},
		{name: "the first of three, with certificates", shape: shape{mtls: true}, from: "baa", subject: "m1", says: []string{"50 apart"}},
		{name: "two of five", from: "abaab", subject: "m2 and m5", says: []string{"50 apart"}},
		{name: "each of three", from: "abc", subject: "m1, m2 and m3", says: []string{"no majority, do not guess"}},
	} {
		t.Run(p.name, func(t *testing.T) {
			besideOthers(t, true)
			src := begin(t, 1, 0)
			dir := t.TempDir()
			for i, name := range []string{"a", "b", "c"} {
				put(t, src.Client(t), "k", 100-25*i*(3-i), 10, 50)
				kvd(t, "snapshot", "save", filepath.Join(dir, name), "--endpoints", src.Endpoint(0))
			}
			p.shape.members = len(p.from)
			c := servertest.New(t, p.shape.options(t))
			var dirs []string
			for i := range c.Len() {
				args := []string{"snapshot", "restore", filepath.Join(dir, p.from[i:i+1]), "--name", c.Name(i), "--data-dir", c.DataDir(i), "--initial-cluster-token", "t", "--yes"}
				for j := range c.Len() {
					args = append(args, "--member", c.Name(j)+"="+c.PeerURL(j))
				}
				kvd(t, args...)
				dirs = append(dirs, c.DataDir(i))
			}
			belongs(t, lookAt(t, dirs...), "KVD-CORRUPT-002 critical")
			for i := range c.Len() {
				if err := c.Launch(i, "--initial-cluster-token=t"); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.WaitReady(servertest.Context(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
			r := look(t, connect(t, c))
			belongs(t, r, "KVD-CORRUPT-002 critical")
			f := finding(t, r, "KVD-CORRUPT-002")
			if f.Subject != p.subject {
				t.Errorf("subject %q, want %q: %s", f.Subject, p.subject, f.Summary)
			}
			mentions(t, f.Summary, p.says...)
		})
	}
}
