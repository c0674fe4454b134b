package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
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
	// cut is how many bytes of the hash are missing, where it is cut off in its
	// midst; what is there of it is stored. What the pages have is expected.
	cut int64
}

// sectorSize is what etcd divides a file's length by to see whether a hash is
// behind its pages.
//
// Source: go.etcd.io/etcd/etcdutl/v3 v3.7.3, snapshot/v3_snapshot.go, hasChecksum.
const sectorSize = 512

// hasHash says whether etcd takes a file of that length for one with a hash.
func hasHash(size int64) bool { return size%sectorSize == dbfile.HashSize }

// hashChunk fits into a core's own cache, so that what was read is there when it is
// hashed; no larger, for a status is to be read beside a server that is short of memory.
const hashChunk = 32 << 10

// hashing makes the hashes of bytes that come one after the other: read from a
// file, or on their way into one.
type hashing struct {
	data int64 // where the pages end
	body int64 // where the bytes end that the stored hash is of; negative where there is none

	at      int64
	sum     hash.Hash
	bodySum []byte
	out     hashes
}

func newHashing(size, data int64) *hashing {
	h := &hashing{data: data, body: -1, sum: sha256.New(), out: hashes{state: HashAbsent}}
	if hasHash(size) {
		h.body = size - dbfile.HashSize
	}
	return h
}

func (h *hashing) add(b []byte) {
	for len(b) > 0 {
		n := int64(len(b))
		for _, edge := range []int64{h.data, h.body} {
			if h.at < edge && edge < h.at+n {
				n = edge - h.at
			}
		}
		h.sum.Write(b[:n]) //nolint:errcheck // a hash never fails
		if used := len(bytes.TrimRight(b[:n], "\x00")); used > 0 {
			h.out.zeroFrom = h.at + int64(used)
		}
		b, h.at = b[n:], h.at+n
		if h.at == h.data {
			h.out.pages = hex.EncodeToString(h.sum.Sum(nil))
		}
		if h.at == h.body {
			h.bodySum = h.sum.Sum(nil)
		}
	}
}

// fileSum is the digest of all that was added.
func (h *hashing) fileSum() string { return hex.EncodeToString(h.sum.Sum(nil)) }

// end finishes the hashes with what is stored in the file.
func (h *hashing) end(f *dbfile.File) (hashes, error) {
	h.out.file = h.fileSum()
	return h.out, h.out.compare(f, h.body, h.bodySum)
}

// hashFile reads the file from end to end.
func hashFile(ctx context.Context, f *dbfile.File, op string, sink progress.Sink) (hashes, error) {
	size := f.Size()
	h := newHashing(size, f.DataSize())
	buf := make([]byte, hashChunk)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return h.out, err
		}
		n := min(hashChunk, size-at)
		got, err := f.ReadAt(buf[:n], at)
		if int64(got) < n {
			if err == io.EOF { //nolint:errorlint // ReaderAt's contract
				err = io.ErrUnexpectedEOF // it was cut while it was read
			}
			return h.out, err
		}
		h.add(buf[:n])
		if at += n; at%(512*hashChunk) == 0 {
			sink.Event(progress.Event{Op: op, Subject: f.Name(), Phase: "hashing", Done: at, Total: size, Unit: "bytes"})
		}
	}
	return h.end(f)
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
	if there := f.Size() - f.DataSize(); h.pages != "" && there > 0 && there < dbfile.HashSize {
		h.cut = dbfile.HashSize - there
		_, err := f.ReadAt(stored[:there], f.DataSize())
		h.stored, h.expected = hex.EncodeToString(stored[:there]), h.pages
		return err
	}
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
