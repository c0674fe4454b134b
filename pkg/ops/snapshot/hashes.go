package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/progress"
)

// HashState says what became of the SHA-256 behind the pages.
type HashState string

// The states of a snapshot's hash.
const (
	HashMatches  HashState = "matches"
	HashMismatch HashState = "mismatch"
	HashAbsent   HashState = "absent" // the length says that there is none
)

// hashes are the digests of a file's bytes, from one pass over them.
type hashes struct {
	state    HashState
	file     string // of all bytes: what sha256sum says
	pages    string // of the pages alone, as the meta page counts them; empty where the file is shorter
	expected string // what the stored hash was compared with
	stored   string
	zeroFrom int64 // offset from which on all bytes are zero; the size where none is

	// extraBytes is how many bytes follow a hash that matches what is before
	// it, which the file's length hides from etcd.
	extraBytes int64
}

// sectorSize is what etcd divides a file's length by to see whether a hash is
// behind its pages.
//
// Source: go.etcd.io/etcd/etcdutl/v3 v3.7.3, snapshot/v3_snapshot.go, hasChecksum.
const sectorSize = 512

// hasHash says whether etcd takes a file of that length for one with a hash.
func hasHash(size int64) bool { return size%sectorSize == dbfile.HashSize }

// hashChunk fits into a core's own cache, so that what was read is there when it is
// hashed.
const hashChunk = 128 << 10

// hashFile reads the file from end to end.
func hashFile(ctx context.Context, f *dbfile.File, op string, sink progress.Sink) (hashes, error) {
	size, data := f.Size(), f.DataSize()
	out := hashes{state: HashAbsent}
	body := int64(-1) // where the bytes end that the stored hash is of
	if hasHash(size) {
		body = size - dbfile.HashSize
	}
	sum := sha256.New()
	buf := make([]byte, hashChunk)
	var bodySum []byte
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		n := min(hashChunk, size-at)
		for _, edge := range []int64{data, body} {
			if at < edge && edge < at+n {
				n = edge - at
			}
		}
		got, err := f.ReadAt(buf[:n], at)
		if int64(got) < n {
			if err == io.EOF { //nolint:errorlint // ReaderAt's contract
				err = io.ErrUnexpectedEOF // it was cut while it was read
			}
			return out, err
		}
		sum.Write(buf[:n]) //nolint:errcheck // a hash never fails
		if used := len(bytes.TrimRight(buf[:n], "\x00")); used > 0 {
			out.zeroFrom = at + int64(used)
		}
		at += n
		if at == data {
			out.pages = hex.EncodeToString(sum.Sum(nil))
		}
		if at == body {
			bodySum = sum.Sum(nil)
		}
		if at%(512*hashChunk) == 0 {
			sink.Event(progress.Event{Op: op, Subject: f.Name(), Phase: "hashing", Done: at, Total: size, Unit: "bytes"})
		}
	}
	out.file = hex.EncodeToString(sum.Sum(nil))
	return out, out.compare(f, body, bodySum)
}

// compare finds the stored hash: where etcd looks for it, or, in a file whose
// length says that there is none, right behind the pages.
func (h *hashes) compare(f *dbfile.File, body int64, bodySum []byte) error {
	stored := make([]byte, dbfile.HashSize)
	if body >= 0 {
		if _, err := f.ReadAt(stored, body); err != nil {
			return err
		}
		h.stored, h.expected = hex.EncodeToString(stored), hex.EncodeToString(bodySum)
		h.state = HashMismatch
		if h.stored == h.expected {
			h.state = HashMatches
			return nil
		}
	}
	after := f.DataSize() + dbfile.HashSize
	if h.pages == "" || f.Size() <= after {
		return nil
	}
	if _, err := f.ReadAt(stored, f.DataSize()); err != nil {
		return err
	}
	if s := hex.EncodeToString(stored); s == h.pages {
		h.state, h.stored, h.expected, h.extraBytes = HashMatches, s, s, f.Size()-after
	}
	return nil
}
