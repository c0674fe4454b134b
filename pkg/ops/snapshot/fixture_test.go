package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/snapshot"
)

const pageSize = 4096

// realRegistry is the snapshot of what a real API server wrote.
func realRegistry(t testing.TB) []byte {
	t.Helper()
	packed, err := os.ReadFile("../dbfile/testdata/real-registry.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func verify(t testing.TB, name string, content []byte) *snapshot.Verification {
	t.Helper()
	v, err := snapshot.Verify(context.Background(), write(t, name, content), snapshot.Options{}, progress.Discard)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// rehash puts the right hash behind changed pages: damage that was there before
// the snapshot was taken.
func rehash(b []byte) []byte {
	sum := sha256.Sum256(b[:len(b)-sha256.Size])
	copy(b[len(b)-sha256.Size:], sum[:])
	return b
}

// resum corrects the checksums of both meta pages after a change in them.
func resum(b []byte) {
	for at := 16; at < 2*pageSize; at += pageSize {
		h := fnv.New64a()
		h.Write(b[at : at+56]) //nolint:errcheck // a hash never fails
		binary.LittleEndian.PutUint64(b[at+56:], h.Sum64())
	}
}

func page(b []byte, id int) []byte { return b[id*pageSize : (id+1)*pageSize] }

// keyRoot finds the root page of the bucket "key", a branch in the fixture.
func keyRoot(t testing.TB, b []byte) int {
	t.Helper()
	at := bytes.LastIndex(page(b, int(binary.LittleEndian.Uint64(b[32:]))), []byte("key"))
	if at < 0 {
		t.Fatal("no bucket \"key\"")
	}
	root := page(b, int(binary.LittleEndian.Uint64(b[32:])))
	return int(binary.LittleEndian.Uint64(root[at+3:]))
}

func child(branch []byte, i int) []byte { return branch[16+16*i+8 : 16+16*i+16] }

// lowestBranch finds the first branch of the bucket "key" whose children are leaves.
func lowestBranch(t testing.TB, b []byte) int {
	t.Helper()
	id := keyRoot(t, b)
	for {
		below := int(binary.LittleEndian.Uint64(child(page(b, id), 0)))
		if page(b, below)[8] == 2 {
			return id
		}
		id = below
	}
}
