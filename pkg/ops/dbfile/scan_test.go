package dbfile_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/ops/dbfile"
)

// store opens a file the way a server does.
func store(t testing.TB, path string) (mvcc.KV, func()) {
	t.Helper()
	cfg := backend.DefaultBackendConfig(zap.NewNop())
	cfg.Path, cfg.UnsafeNoFsync = path, true
	be := backend.New(cfg)
	kv := mvcc.New(zap.NewNop(), be, &lease.FakeLessor{}, mvcc.StoreConfig{})
	return kv, func() {
		kv.Close()
		if err := be.Close(); err != nil {
			t.Error(err)
		}
	}
}

// history writes a random history with etcd's own store.
func history(t testing.TB, path string, rng *rand.Rand, changes int, compact bool) {
	t.Helper()
	kv, done := store(t, path)
	defer done()
	for range changes {
		txn := kv.Write(traceutil.TODO())
		for range 1 + rng.IntN(3) {
			key := fmt.Appendf(nil, "/k/%03d", rng.IntN(60))
			if rng.IntN(4) == 0 {
				txn.DeleteRange(key, nil)
			} else {
				txn.Put(key, make([]byte, rng.IntN(600)), lease.LeaseID(rng.IntN(3)))
			}
		}
		txn.End()
		if compact && rng.IntN(150) == 0 {
			ch, err := kv.Compact(traceutil.TODO(), 1+rng.Int64N(kv.Rev()))
			if err == nil {
				<-ch
			}
		}
	}
	kv.Commit()
}

func TestHashAndLiveKeysAreEtcds(t *testing.T) {
	for i := range 6 {
		rng := rand.New(rand.NewPCG(7, uint64(i))) //nolint:gosec // seeded on purpose
		path := filepath.Join(t.TempDir(), "db")
		history(t, path, rng, 60*i*i, i%2 == 1)
		sameAsEtcd(t, fmt.Sprint(i), path)
	}
	sameAsEtcd(t, "registry", write(t, "db", realRegistry(t)))
}

func sameAsEtcd(t *testing.T, name, path string) {
	t.Helper()
	f, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	got, err := f.HashKV(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var scan dbfile.Scan
	if err := scan.Run(context.Background(), f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if scan.KVHash != got {
		t.Errorf("%s: a scan says %+v, HashKV %+v", name, scan.KVHash, got)
	}
	kv, done := store(t, path)
	defer done()
	want, _, err := kv.HashStorage().HashByRev(0)
	if err != nil {
		t.Fatal(err)
	}
	if got.Hash != want.Hash || got.Revision != want.Revision || got.CompactRevision != max(0, want.CompactRevision) {
		t.Errorf("%s: %+v, etcd says %+v", name, got, want)
	}
	all, err := kv.Range(context.Background(), []byte{0}, []byte{}, mvcc.RangeOptions{CountOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if scan.Live.Live() != int64(all.Count) {
		t.Errorf("%s: %d live keys, etcd has %d", name, scan.Live.Live(), all.Count)
	}
}

func TestLiveAtARevisionIsARangeAtIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	history(t, path, rand.New(rand.NewPCG(1, 2)), 700, false) //nolint:gosec // seeded on purpose
	f, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	live := map[int64]int64{}
	for rev := int64(1); rev < 700; rev += 97 {
		set, err := f.LiveAt(context.Background(), rev)
		if err != nil {
			t.Fatal(err)
		}
		live[rev] = set.Live()
		few, err := f.LiveAtWithKeys(context.Background(), rev, 16) // many passes
		if err != nil || few.Live() != set.Live() || few.Records() != set.Records() {
			t.Errorf("in many passes: %d of %d, %v; in one: %d of %d", few.Live(), few.Records(), err, set.Live(), set.Records())
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	kv, done := store(t, path)
	defer done()
	for rev, got := range live {
		all, err := kv.Range(context.Background(), []byte{0}, []byte{}, mvcc.RangeOptions{CountOnly: true, Rev: rev})
		if err != nil || got != int64(all.Count) {
			t.Errorf("at %d: %d live keys, etcd has %d, %v", rev, got, all.Count, err)
		}
	}
}

func TestRevisionsFrom(t *testing.T) {
	f, err := dbfile.Open(write(t, "db", realRegistry(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	var all []int64
	if err := f.Revisions(context.Background(), 0, func(r *dbfile.Record) error { all = append(all, r.Main); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, from := range []int64{1, 2, 600, 1189, 1190, math.MaxInt64} {
		want := 0
		for _, main := range all {
			if main >= from {
				want++
			}
		}
		got := 0
		err := f.Revisions(context.Background(), from, func(r *dbfile.Record) error {
			if r.Main < from || string(r.Key) == "" || r.ModRevision != r.Main && !r.Tombstone {
				t.Errorf("from %d: %+v", from, r.Revision)
			}
			got++
			return nil
		})
		if err != nil || got != want {
			t.Errorf("from %d: %d records, want %d, %v", from, got, want, err)
		}
	}
}

func TestStoredFreelist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	history(t, path, rand.New(rand.NewPCG(3, 4)), 900, true) //nolint:gosec // seeded on purpose
	scan := func() (*dbfile.File, *dbfile.Scan) {
		f, err := dbfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		s := &dbfile.Scan{}
		if err := s.Run(context.Background(), f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return f, s
	}
	if _, s := scan(); s.Freelist != -1 {
		t.Errorf("a server's file stores a freelist of %d", s.Freelist)
	}
	db, err := bolt.Open(path, 0o600, nil) // with bbolt's defaults it gets one
	if err != nil {
		t.Fatal(err)
	}
	free := int64(db.Stats().FreePageN + db.Stats().PendingPageN)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, s := scan()
	if s.Freelist != free || s.Used+uint64(free) != f.Header().Pages {
		t.Errorf("%d pages listed, bbolt has %d; %d used of %d", s.Freelist, free, s.Used, f.Header().Pages)
	}
}

func FuzzKeyValue(f *testing.F) {
	good, err := proto.Marshal(&mvccpb.KeyValue{Key: []byte("k"), Value: []byte("v"), CreateRevision: 3, ModRevision: 9, Version: 2, Lease: 7})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(good, 0x4a, 1, 'x'))          // an unknown field
	f.Add([]byte{0x8a, 0, 1, 'k', 0x90, 0, 3}) // tags in more bytes than they take
	f.Add([]byte{0x10, 0x80, 0, 0x0a, 0x81, 0, 'k'})
	f.Add(append(good, good...)) // of each field the last holds
	f.Add(protowire.AppendTag(nil, 1, protowire.StartGroupType))
	f.Add(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 5)) // a key of another type
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := dbfile.ParseKeyValue(b)
		var want mvccpb.KeyValue
		if wantErr := proto.Unmarshal(b, &want); (err == nil) != (wantErr == nil) {
			t.Fatalf("%v, etcd says %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if string(got.Key) != string(want.Key) || string(got.Value) != string(want.Value) || got.CreateRevision != want.CreateRevision ||
			got.ModRevision != want.ModRevision || got.Version != want.Version || got.Lease != want.Lease {
			t.Fatalf("%+v, etcd reads %v", got, &want)
		}
	})
}
