package keyspace_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
)

// TestTwoFilesAreToldApart_more compares random histories at two revisions each, also where
// there are more keys than the memory holds: what is left of each is what a full read
// of the other one does not have.
func TestTwoFilesAreToldApart_more(t *testing.T) {
	t.Parallel()
	var f features
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		h := writeHistory(t, filepath.Join(dir, fmt.Sprint("db", f.runs)), &f)
		defer os.Remove(h.path) //nolint:errcheck // the folder goes as well
		a, b := openPair(t, h.path, h.path, keyspace.FileOptions{Memory: rapid.SampledFrom([]int64{0, 1}).Draw(t, "memory"), SpoolDir: dir})
		defer a.Close() //nolint:errcheck // only read
		defer b.Close() //nolint:errcheck // only read
		revs := rapid.Int64Range(h.oldest, h.head)
		revA, revB := revs.Draw(t, "A"), revs.Draw(t, "B")
		q := keyspace.Query{KeysOnly: rapid.Bool().Draw(t, "keys only"), End: rapid.SampledFrom([]string{"", "/registry/pods/default/web-1", "b"}).Draw(t, "end")}
		gotA, gotB := apart(t, a, b, q, revA, revB)
		inA, inB := within(h.states[revA], "", q.End), within(h.states[revB], "", q.End)
		sameStates(t, "A", gotA, without(inA, inB))
		sameStates(t, "B", gotB, without(inB, inA))
		if _, _, err := keyspace.TellApart(context.Background(), a, b, keyspace.Query{Rev: revA}, keyspace.Query{Rev: h.head + 1}); fault.KindOf(err) != fault.Refused {
			t.Fatalf("a revision that is yet to come: %v", err)
		}
	})
	f.enough(t)
}

// TestAByteTellsRecordsApart changes one byte of one value and leaves its revisions as
// they were: that is what a comparison of values is for, and what one of revisions
// cannot see.
func TestAByteTellsRecordsApart(t *testing.T) {
	t.Parallel()
	whole := realRegistry(t)
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	content, err := os.ReadFile(whole)
	if err == nil {
		err = os.WriteFile(damaged, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	key := damage(t, damaged)
	a, b := openPair(t, whole, damaged, keyspace.FileOptions{})
	defer a.Close() //nolint:errcheck // only read
	defer b.Close() //nolint:errcheck // only read
	gotA, gotB := apart(t, a, b, keyspace.Query{}, 0, 0)
	if len(gotA) != 1 || len(gotB) != 1 || gotA[0].key != key || gotB[0].key != key || gotA[0].value == gotB[0].value {
		t.Errorf("%q was damaged; told apart are %d and %d keys: %.300v", key, len(gotA), len(gotB), gotA)
	}
	gotA, gotB = apart(t, a, b, keyspace.Query{KeysOnly: true}, 0, 0)
	if len(gotA)+len(gotB) != 0 {
		t.Errorf("by revisions told apart are %v, %v", gotA, gotB)
	}
}

// damage changes the last byte of the value of the latest record, and returns its key.
func damage(t *testing.T, path string) (key string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket([]byte(dbfile.BucketKey)).Cursor()
		k, v := c.Last()
		for len(k) != 17 {
			k, v = c.Prev()
		}
		kv, err := dbfile.ParseKeyValue(v)
		if err != nil {
			return err
		}
		key = string(kv.Key)
		v = bytes.Clone(v)
		v[bytes.Index(v, kv.Value)+len(kv.Value)-1] ^= 1
		return tx.Bucket([]byte(dbfile.BucketKey)).Put(bytes.Clone(k), v)
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func openPair(t fataler, a, b string, o keyspace.FileOptions) (ofA, ofB *keyspace.FileSource) {
	t.Helper()
	ofA, err := keyspace.OpenFile(context.Background(), a, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if ofB, err = keyspace.OpenFile(context.Background(), b, o); err != nil {
		t.Fatalf("open: %v", err)
	}
	return ofA, ofB
}

// apart reads what is left of both files.
func apart(t fataler, a, b *keyspace.FileSource, q keyspace.Query, revA, revB int64) (ofA, ofB []state) {
	t.Helper()
	qa, qb := q, q
	qa.Rev, qb.Rev = revA, revB
	restA, restB, err := keyspace.TellApart(context.Background(), a, b, qa, qb)
	if err != nil {
		t.Fatalf("tell apart: %v", err)
	}
	read := func(r *keyspace.Rest, s keyspace.Source) (out []state) {
		err := r.Keys(context.Background(), func(it *keyspace.Item) error {
			if err := s.Load(context.Background(), it); err != nil {
				return err
			}
			out = append(out, stateOf(it))
			return nil
		})
		if err != nil {
			t.Fatalf("keys: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		return out
	}
	return read(restA, a), read(restB, b)
}

// without returns the states that are not among others.
func without(all, others []state) []state {
	has := map[state]bool{}
	for _, s := range others {
		has[s] = true
	}
	var out []state
	for _, s := range all {
		if !has[s] {
			out = append(out, s)
		}
	}
	return out
}
