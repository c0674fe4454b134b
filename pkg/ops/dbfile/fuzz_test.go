package dbfile_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// seedPage is the smallest page that bbolt knows: a small file has many of them.
const seedPage = 1024

// fillSeed writes a small history in etcd's form, with a branch page.
func fillSeed(tx *bolt.Tx) error {
	key, err := tx.CreateBucket([]byte(dbfile.BucketKey))
	if err != nil {
		return err
	}
	for i := range int64(60) {
		rev := dbfile.Revision{Main: i + 2, Tombstone: i%7 == 6}
		kv := &mvccpb.KeyValue{Key: fmt.Appendf(nil, "k%d", i%5), CreateRevision: 2, ModRevision: i + 2, Version: 1, Value: make([]byte, 20+i%3*500)}
		if rev.Tombstone {
			kv = &mvccpb.KeyValue{Key: kv.Key}
		}
		b, err := proto.Marshal(kv)
		if err != nil {
			return err
		}
		if err := key.Put(rev.Bytes(), b); err != nil {
			return err
		}
	}
	meta, err := tx.CreateBucket([]byte(dbfile.BucketMeta))
	if err != nil {
		return err
	}
	return meta.Put([]byte("finishedCompactRev"), dbfile.Revision{Main: 9}.Bytes())
}

// FuzzScan reads files of any content. Whatever it meets, it ends, and says so in
// an error with a place; what a scan reports as whole, each reader can read.
func FuzzScan(f *testing.F) {
	small := snapshotOf(f, boltFile(f, seedPage, fillSeed))
	f.Add(small, false)
	f.Add(small[:len(small)-2000], false)
	f.Add(small[:2*seedPage], true)
	f.Add([]byte("no backend"), false)
	f.Fuzz(func(t *testing.T, b []byte, sums bool) {
		if sums { // otherwise most changes of a meta page end at its checksum
			b = withSums(b)
		}
		file, err := dbfile.New("fuzz", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if fault.KindOf(err) != fault.Damage {
				t.Fatalf("%v", err)
			}
			return
		}
		damaged := 0
		scan := dbfile.Scan{Damage: func(d *dbfile.Damage) error {
			if d.Class == "" || d.Msg == "" || d.Error() == "" {
				t.Fatalf("%+v says nothing", d)
			}
			damaged++
			return nil
		}}
		if err := scan.Run(context.Background(), file); err != nil {
			t.Fatal(err)
		}
		if scan.Used > file.Header().Pages {
			t.Fatalf("%d pages in use of %d", scan.Used, file.Header().Pages)
		}
		surveyed(t, file, damaged == 0)
		err = new(dbfile.Scan).Run(context.Background(), file)
		if (err == nil) != (damaged == 0) {
			t.Fatalf("%d pieces of damage, and a scan that stops at the first says %v", damaged, err)
		}
		if err == nil {
			if kv, err := file.HashKV(context.Background()); err != nil || kv != scan.KVHash {
				t.Fatalf("%+v, the scan says %+v, %v", kv, scan.KVHash, err)
			}
		} else if _, ok := dbfile.AsDamage(err); !ok || errors.Is(err, context.Canceled) {
			t.Fatalf("%v is no damage", err)
		}
	})
}

// surveyed reads a file that a scan has read, as whoever accounts for its bytes does:
// several parts at a time. What a scan finds whole can be read so, to the same last
// revision.
func surveyed(t *testing.T, file *dbfile.File, whole bool) {
	var last [3]int64
	_, _, err := file.Survey(context.Background(), len(last), func(worker int, r *dbfile.Record) error {
		last[worker] = r.Main
		if key, err := file.KeyAt(r.Offset, int64(len(r.RawValue))); err == nil && !bytes.HasPrefix(r.RawValue, []byte("\x0a")) {
			t.Fatalf("a key %q at %d, where none begins", key, r.Offset)
		}
		return nil
	})
	if whole && err != nil && fault.CauseOf(err) != dbfile.DamageBeyondEnd {
		t.Fatalf("a scan finds nothing, a survey %v", err)
	}
	head, herr := file.LastRevision(context.Background())
	if err == nil && (herr != nil || head != slices.Max(last[:])) {
		t.Fatalf("the last revision is %d, %v; a survey met %d", head, herr, last)
	}
}

// withSums corrects the checksums of both meta pages.
func withSums(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 16; at+64 <= len(b) && at < 2*seedPage; at += seedPage {
		sum := fnv.New64a()
		sum.Write(b[at : at+56]) //nolint:errcheck // a hash never fails
		binary.LittleEndian.PutUint64(b[at+56:], sum.Sum64())
	}
	return b
}
