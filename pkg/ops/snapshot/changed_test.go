package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/snapshot"
)

// changed makes a snapshot that differs from another as the function says: by
// bbolt, as a server would, and so with a hash that matches.
func changed(t testing.TB, content []byte, o bolt.Options, change func(tx *bolt.Tx) error) []byte {
	t.Helper()
	path := write(t, "db", content[:len(content)-sha256.Size])
	db, err := bolt.Open(path, 0o600, &o)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(change); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	return rehash(append(bytes.Clone(b[:f.DataSize()]), make([]byte, sha256.Size)...))
}

// asEtcd opens a file as a server does.
func asEtcd() bolt.Options {
	return bolt.Options{NoFreelistSync: true, FreelistType: bolt.FreelistMapType, NoSync: true}
}

// Revisions that are not there, while all pages and records that are there are well.
func TestMissingRevisions(t *testing.T) {
	good, said := fixture(t, "3.7-history") // compacted at 70, head 84
	gone := func(keys ...dbfile.Revision) []byte {
		return changed(t, good, asEtcd(), func(tx *bolt.Tx) error {
			for _, k := range keys {
				if b := tx.Bucket([]byte("key")); b.Get(k.Bytes()) == nil {
					t.Fatalf("there is no revision %s", k)
				} else if err := b.Delete(k.Bytes()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	rev := func(main, sub int64) dbfile.Revision { return dbfile.Revision{Main: main, Sub: sub} }
	after := said.CompactRevision + 1
	for name, tc := range map[string]struct {
		b    []byte
		want string // empty where nothing can show it
	}{
		"right after the compaction": {gone(rev(after, 0)), "72/0 follows 70/0"},
		"two in the middle":          {gone(rev(77, 0), rev(79, 0)), "in 2 places, the first: 78/0 follows 76/0"},
		"part of a transaction":      {gone(rev(74, 0)), "74/1t follows 73/"},
		"before the compaction":      {gone(rev(66, 0)), ""},
		"the last":                   {gone(rev(84, 0)), ""},
	} {
		v, raw := verify(t, "s.db", tc.b), verify(t, "raw.db", tc.b[:len(tc.b)-sha256.Size])
		if tc.want == "" {
			if v.Verdict != snapshot.Restorable || raw.Verdict != snapshot.Unproven {
				t.Errorf("%s: %s (%s) %s; raw %s", name, v.Verdict, v.Class, v.Summary, raw.Verdict)
			}
			continue
		}
		if v.Verdict != snapshot.WithLoss || v.Class != snapshot.ClassMissing || !strings.Contains(v.Summary, tc.want) || !strings.Contains(v.Summary, "was damaged already") {
			t.Errorf("%s: %s (%s) %s", name, v.Verdict, v.Class, v.Summary)
		}
		if raw.Verdict != snapshot.WithLoss || raw.Class != snapshot.ClassTornCopy || !strings.Contains(raw.Summary, tc.want) {
			t.Errorf("%s, raw: %s (%s) %s", name, raw.Verdict, raw.Class, raw.Summary)
		}
		if len(v.Findings) == 0 || v.Findings[0].Class != string(snapshot.ClassMissing) {
			t.Errorf("%s: findings %+v", name, v.Findings)
		}
	}
}

// A restore with a higher revision that marks nothing as compacted leaves
// revisions out, and one empty record that says so.
func TestBumpedRevisionsAreNotMissing(t *testing.T) {
	good, said := fixture(t, "3.7-history")
	b := changed(t, good, asEtcd(), func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("key")).Put(dbfile.Revision{Main: said.Revision + 1000}.Bytes(), nil)
	})
	if v := verify(t, "s.db", b); v.Verdict != snapshot.Restorable || v.Content.RevisionBumps != 1 || v.Content.Revision != said.Revision+1000 {
		t.Errorf("%s (%s) %s", v.Verdict, v.Class, v.Summary)
	}
}
