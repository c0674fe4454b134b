package dbfile_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// FuzzScan reads files of any content. Whatever it meets, it ends, and says so in
// an error with a place; what a scan reports as whole, each reader can read.
func FuzzScan(f *testing.F) {
	path := filepath.Join(f.TempDir(), "db")
	history(f, path, rand.New(rand.NewPCG(9, 9)), 120, true) //nolint:gosec // seeded on purpose
	small := snapshotOf(f, path)
	f.Add(small, false)
	f.Add(small[:len(small)-5000], false)
	f.Add(small[:2*4096], true)
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

// withSums corrects the checksums of both meta pages.
func withSums(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 16; at+64 <= len(b) && at < 2*4096; at += 4096 {
		sum := fnv.New64a()
		sum.Write(b[at : at+56]) //nolint:errcheck // a hash never fails
		binary.LittleEndian.PutUint64(b[at+56:], sum.Sum64())
	}
	return b
}
