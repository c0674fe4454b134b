package dbfile_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// TestSurveyCountsEveryByte has a file with a tree of three levels, values on
// overflow pages, inline and other buckets, and free pages.
func TestSurveyCountsEveryByte(t *testing.T) {
	for name, records := range map[string]int{"inline": 2, "a leaf": 20, "a tree": 3000} {
		path := boltFile(t, 1024, func(tx *bolt.Tx) error {
			for _, name := range []string{"key", "lease", "meta"} {
				if _, err := tx.CreateBucket([]byte(name)); err != nil {
					return err
				}
			}
			for i := range records {
				v, err := proto.Marshal(&mvccpb.KeyValue{Key: fmt.Appendf(nil, "k%05d", i), Value: make([]byte, i%5*400)})
				if err != nil {
					return err
				}
				if err := tx.Bucket([]byte("key")).Put(dbfile.Revision{Main: int64(i + 2)}.Bytes(), v); err != nil {
					return err
				}
			}
			for i := range 300 {
				if err := tx.Bucket([]byte("lease")).Put(fmt.Appendf(nil, "%08d", i), make([]byte, 10)); err != nil {
					return err
				}
			}
			return nil
		})
		f, err := dbfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() //nolint:errcheck // only read
		for _, workers := range []int{1, 3} {
			var mu sync.Mutex
			var bytesOf int64
			seen := make([][]int64, workers)
			space, buckets, err := f.Survey(context.Background(), workers, func(w int, r *dbfile.Record) error {
				mu.Lock()
				defer mu.Unlock()
				bytesOf += r.Size()
				seen[w] = append(seen[w], r.Main)
				raw := make([]byte, len(r.RawValue))
				if _, err := f.ReadAt(raw, r.Offset); err != nil || !bytes.Equal(raw, r.RawValue) {
					t.Errorf("%s: the record is not at offset %d: %v", name, r.Offset, err)
				}
				if key, err := f.KeyAt(r.Offset, int64(len(raw))); err != nil || !bytes.Equal(key, r.Key) {
					t.Errorf("%s: key %q at offset %d, want %q: %v", name, key, r.Offset, r.Key, err)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if sum := space.Sum() + bytesOf; sum != f.Size() {
				t.Errorf("%s, %d workers: %d bytes in %+v and records, the file has %d", name, workers, sum, space, f.Size())
			}
			if len(buckets) != 2 || buckets[0].Name != "lease" || buckets[0].Records != 300 || buckets[0].Bytes != 300*18 {
				t.Errorf("%s: %+v", name, buckets)
			}
			want := int64(2)
			for _, part := range seen {
				for _, rev := range part {
					if rev != want {
						t.Fatalf("%s, %d workers: revision %d where %d belongs", name, workers, rev, want)
					}
					want++
				}
			}
			if last, err := f.LastRevision(context.Background()); err != nil || last != want-1 || last != int64(records+1) {
				t.Errorf("%s: the last revision is %d, %v; want %d", name, last, err, records+1)
			}
		}
	}
}

// TestSurveyOfADamagedTree damages one page after the other of a tree that several
// read: each is found, whoever meets it.
func TestSurveyOfADamagedTree(t *testing.T) {
	whole := realRegistry(t)
	found := 0
	for at := 2 * 4096; at < len(whole)-4096; at += 64 * 4096 {
		b := bytes.Clone(whole)
		clear(b[at : at+4096])
		f, err := dbfile.New("damaged", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			continue
		}
		_, _, err = f.Survey(context.Background(), 3, func(int, *dbfile.Record) error { return nil })
		serr := new(dbfile.Scan).Run(context.Background(), f)
		if (err == nil) != (serr == nil) || err != nil && fault.KindOf(err) != fault.Damage {
			t.Errorf("page at %d: %v; a scan says %v", at, err, serr)
		}
		if err != nil {
			found++
		}
	}
	if found < 3 {
		t.Errorf("%d of the damages were met", found)
	}
}
