package keyspace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/pkg/v3/traceutil"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
)

// TestACompactionThatIsPending has a file whose server was killed in the middle of
// a compaction: what it was to remove is there and cannot be read any more, as
// after the next start. Looking changes nothing, and a read-only file in a
// read-only folder will do.
func TestACompactionThatIsPending(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	kv, done := store(t, path)
	for i := range 200 {
		kv.Put(fmt.Appendf(nil, "/k/%d", i%10), fmt.Append(nil, i), 0)
	}
	kv.DeleteRange([]byte("/k/3"), nil)
	h := told(t, kv, path)
	kv.Commit()
	done()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	const to = 150
	if err := db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("scheduledCompactRev"), dbfile.Revision{Main: to}.Bytes())
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) }) //nolint:errcheck,gosec // for its removal
	before, info := read(t, path)
	s, err := keyspace.OpenFile(t.Context(), path, keyspace.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // only read
	if b, _ := s.Bounds(t.Context()); b.Oldest != to || b.Head != h.head {
		t.Errorf("%+v", b)
	}
	none := func(*keyspace.Item) error { return nil }
	if err := s.Keys(t.Context(), keyspace.Query{Rev: to - 1}, none); fault.CauseOf(err) != cluster.CauseCompacted {
		t.Errorf("below it: %v", err)
	}
	sameStates(t, "at it", readKeys(t, s, keyspace.Query{Rev: to}), h.states[to])
	cut := h
	cut.oldest = to
	changes(t, s, cut, h.head)
	b, err := keyspace.BreakdownFile(t.Context(), s, keyspace.DefaultBreakdownOptions())
	if err != nil || b.File.Pending != to || b.Total.Keys != 9 || b.Total.Revisions != 191 || *b.Total.Tombstones != 1 {
		t.Errorf("%+v, %v", b, err)
	}
	after, later := read(t, path)
	if !bytes.Equal(before, after) || !info.ModTime().Equal(later.ModTime()) {
		t.Error("the file was changed")
	}
}

func read(t *testing.T, path string) ([]byte, os.FileInfo) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return b, info
}

// TestAKeySpaceRewrittenInOneRevision is etcd issue 22376: a transaction deletes all
// keys and puts them again, and a compaction at its revision loses the puts. Before,
// the keys are there; behind, only the deletions are.
func TestAKeySpaceRewrittenInOneRevision(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	kv, done := store(t, path)
	for _, key := range []string{"a", "b"} {
		kv.Put([]byte(key), []byte("1"), 0)
	}
	txn := kv.Write(traceutil.TODO())
	txn.DeleteRange([]byte{0}, []byte{})
	for _, key := range []string{"a", "b"} {
		txn.Put([]byte(key), []byte("2"), 0)
	}
	txn.End()
	kv.Commit()
	looked := func(keys, tombstones int64) {
		t.Helper()
		b := breakdown(t, path, keyspace.FileOptions{}, func(*keyspace.BreakdownOptions) {})
		if b.Total.Keys != keys || *b.Total.Tombstones != tombstones {
			t.Errorf("%d keys and %d tombstones, want %d and %d", b.Total.Keys, *b.Total.Tombstones, keys, tombstones)
		}
		s, err := keyspace.OpenFile(t.Context(), path, keyspace.FileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // only read
		if got := readKeys(t, s, keyspace.Query{}); int64(len(got)) != keys || keys > 0 && (got[0].value != "2" || got[0].version != 1) {
			t.Errorf("%v, want %d keys", got, keys)
		}
	}
	copied := path
	path = filepath.Join(t.TempDir(), "copy") // the store has the file locked
	b, _ := read(t, copied)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	looked(2, 2)
	ch, err := kv.Compact(traceutil.TODO(), kv.Rev())
	if err != nil {
		t.Fatal(err)
	}
	<-ch
	kv.Commit()
	done()
	path = copied
	looked(0, 2)
}
