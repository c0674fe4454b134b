package dbfile_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"golang.org/x/sys/unix"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

type record struct{ bucket, key, value string }

// throughBolt reads every record of every bucket with bbolt.
func throughBolt(t *testing.T, path string) []record {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only read
	var all []record
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				all = append(all, record{string(name), string(k), string(v)})
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func throughDbfile(t *testing.T, path string) []record {
	t.Helper()
	f, err := dbfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	buckets, err := f.Buckets(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var all []record
	for _, b := range buckets {
		err := f.Each(context.Background(), b.Name, func(k, v []byte) error {
			all = append(all, record{b.Name, string(k), string(v)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestReadsWhatBoltReads(t *testing.T) {
	t.Run("registry", func(t *testing.T) { sameAsBolt(t, write(t, "s.db", realRegistry(t))) })
	for i, pageSize := range []int{1024, 4096, 16384, 65536} {
		t.Run(fmt.Sprint(pageSize), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 5)) //nolint:gosec // seeded on purpose
			path := boltFile(t, pageSize, func(tx *bolt.Tx) error {
				for b := range 12 {
					bucket, err := tx.CreateBucket(fmt.Appendf(nil, "bucket-%d", b))
					if err != nil {
						return err
					}
					for range rng.IntN(2 + 40*b) {
						key := fmt.Appendf(nil, "%0*d", 1+rng.IntN(60), rng.IntN(100000))
						if err := bucket.Put(key, bytes.Repeat([]byte{byte(b)}, rng.IntN(1+rng.IntN(40))*min(pageSize, 16384)/30)); err != nil {
							return err
						}
					}
				}
				return nil
			})
			sameAsBolt(t, path)
		})
	}
}

func sameAsBolt(t *testing.T, path string) {
	t.Helper()
	got, want := throughDbfile(t, path), throughBolt(t, path)
	if len(want) < 100 {
		t.Fatalf("bbolt reads %d records, the test needs more", len(want))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d records, bbolt reads %d", len(got), len(want))
	}
}

func TestMetaOfARegistry(t *testing.T) {
	f, err := dbfile.Open(write(t, "s.db", realRegistry(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	m, err := f.Meta(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if m.StorageVersion != "3.7.0" || m.ConsistentIndex == 0 || m.Term == 0 || m.CompactRevision() != 0 || m.CompactionPending() {
		t.Errorf("meta %+v", m)
	}
	if m.ConfState == nil || len(m.ConfState.Voters) != 1 {
		t.Errorf("conf state %+v", m.ConfState)
	}
	if f.Size() != f.DataSize()+dbfile.HashSize {
		t.Errorf("%d bytes, %d of pages", f.Size(), f.DataSize())
	}
}

func TestBucketNamesAreEtcds(t *testing.T) {
	ours := []string{dbfile.BucketKey, dbfile.BucketMeta, dbfile.BucketLease, dbfile.BucketAlarm, dbfile.BucketCluster,
		dbfile.BucketMembers, dbfile.BucketMembersRemoved, dbfile.BucketAuth, dbfile.BucketAuthUsers, dbfile.BucketAuthRoles}
	var theirs []string
	for _, b := range schema.AllBuckets {
		theirs = append(theirs, b.String())
	}
	if !reflect.DeepEqual(ours, theirs) {
		t.Errorf("%v, etcd has %v", ours, theirs)
	}
}

func TestReadingChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.db")
	content := realRegistry(t)
	if err := os.WriteFile(path, content, 0o400); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1700000000, 123456789)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil { //nolint:gosec // a read-only folder
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700) //nolint:errcheck,gosec // so that it can be removed
	throughDbfile(t, path)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if m := time.Unix(st.Mtim.Unix()); !m.Equal(old) {
		t.Errorf("modified at %v", m)
	}
	if a := time.Unix(st.Atim.Unix()); !a.Equal(old) {
		t.Errorf("accessed at %v, the owner can avoid that", a)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
		t.Errorf("content changed: %v", err)
	}
}

func TestOpenNamesWhatItIsNot(t *testing.T) {
	good := realRegistry(t)
	for name, tc := range map[string]struct {
		content []byte
		cause   string
	}{
		"empty":      {nil, "empty"},
		"short":      {good[:20], "too_short"},
		"one page":   {good[:40], "too_short"},
		"gzip":       {[]byte("\x1f\x8b\x08\x00rest of it"), "gzip"},
		"zip":        {[]byte("PK\x03\x04rest of it"), "zip"},
		"zstd":       {[]byte("\x28\xb5\x2f\xfdrest"), "zstd"},
		"xz":         {[]byte("\xfd7zXZ\x00rest"), "xz"},
		"html":       {[]byte("<!DOCTYPE html><title>403</title>"), "markup"},
		"s3":         {[]byte(`<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`), "markup"},
		"checksum":   {[]byte(strings.Repeat("de82f9df59a1b0c6", 4) + "  snapshot.db\n"), "checksum"},
		"text":       {[]byte("not a snapshot\n"), "text"},
		"json":       {[]byte(`{"revision": 4}`), "json"},
		"zeros":      {make([]byte, 9000), "zeros"},
		"noise":      {bytes.Repeat([]byte{7, 0x93, 0xfe, 1}, 900), "unknown"},
		"wal":        {append([]byte{4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 0x10, 0}, make([]byte, 200)...), "wal"},
		"both metas": {append(bytes.Repeat([]byte{0}, 9000), good[9000:]...), "zeros"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dbfile.Open(write(t, "f", tc.content))
			if fault.KindOf(err) != fault.Damage || fault.CauseOf(err) != tc.cause && name != "both metas" {
				t.Errorf("%v (kind %q, cause %q), want cause %q", err, fault.KindOf(err), fault.CauseOf(err), tc.cause)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		})
	}
	if _, err := dbfile.Open(filepath.Join(t.TempDir(), "none")); fault.CauseOf(err) != "no_such_file" {
		t.Error(err)
	}
	if _, err := dbfile.Open(t.TempDir()); fault.CauseOf(err) != "directory" {
		t.Error(err)
	}
}

func TestOpenNamesTheHolder(t *testing.T) {
	path := write(t, "db", realRegistry(t))
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // not of interest
	start := time.Now()
	_, err = dbfile.Open(path)
	if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != "file_in_use" || !strings.Contains(err.Error(), fmt.Sprintf("process %d (dbfile.test)", os.Getpid())) {
		t.Errorf("%v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	f, err := dbfile.OpenWith(path, dbfile.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	if h, live := f.Live(); !live || h.PID != os.Getpid() {
		t.Errorf("holder %v, live %v", h, live)
	}
	if m, err := f.Meta(context.Background()); err != nil || m.ConsistentIndex == 0 {
		t.Errorf("meta %+v, %v", m, err)
	}
}
