package dbfile

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/bits"
	"unicode/utf8"
)

// Kind is what a file seems to be, from its first bytes.
type Kind string

// The kinds of file that people take for a snapshot.
const (
	KindBackend   Kind = "backend" // pages of bbolt, whole or not
	KindEmpty     Kind = "empty"
	KindShort     Kind = "too_short" // fewer bytes than two meta pages
	KindZeros     Kind = "zeros"
	KindGzip      Kind = "gzip"
	KindZip       Kind = "zip"
	KindZstd      Kind = "zstd"
	KindXZ        Kind = "xz"
	KindBzip2     Kind = "bzip2"
	KindLZ4       Kind = "lz4"
	KindTar       Kind = "tar"
	KindAge       Kind = "age"
	KindMarkup    Kind = "markup"        // HTML or XML: what a server or proxy answered instead
	KindChecksum  Kind = "checksum"      // the side file of sha256sum
	KindJSON      Kind = "json"          // a manifest, an error
	KindText      Kind = "text"          // any other text
	KindWAL       Kind = "wal"           // a file of member/wal
	KindRaftSnap  Kind = "raft_snapshot" // a .snap file of member/snap
	KindSQLite    Kind = "sqlite"        // what k3s has where it runs without etcd
	KindBase64    Kind = "base64"        // a backend file, as base64 writes it
	KindCRLF      Kind = "crlf"          // a backend file that came through a terminal
	KindRecoded   Kind = "recoded"       // bytes that were taken for text, and written in another encoding
	KindPreceded  Kind = "preceded"      // a backend file behind something else
	KindOpenSSL   Kind = "openssl"       // encrypted by openssl enc
	KindDirectory Kind = "directory"     // not a file at all
	KindOther     Kind = "unknown"
)

// Describe names it for people.
func (k Kind) Describe() string {
	if s, ok := kindText()[k]; ok {
		return s
	}
	return "content of no kind that is known here"
}

func kindText() map[Kind]string {
	return map[Kind]string{
		KindBackend: "an etcd backend file", KindEmpty: "an empty file", KindShort: "too short to hold a header",
		KindZeros: "nothing but zeros", KindGzip: "a gzip stream", KindZip: "a zip archive", KindZstd: "a zstd stream",
		KindXZ: "an xz stream", KindBzip2: "a bzip2 stream", KindLZ4: "an lz4 stream", KindTar: "a tar archive",
		KindAge: "a file encrypted with age", KindMarkup: "HTML or XML, such as the error page of a server or proxy",
		KindChecksum: "a checksum file, not what it is the checksum of", KindJSON: "JSON text", KindText: "text",
		KindWAL: "a file of etcd's write-ahead log", KindDirectory: "a directory",
		KindRaftSnap: "raft's own note of a snapshot, which has no keys in it", KindSQLite: "an SQLite database, as k3s has it where it runs without etcd", KindBase64: "an etcd backend file written as base64",
		KindCRLF: crlfWords, KindRecoded: "bytes that were taken for text and written in another encoding, as PowerShell's > does",
		KindPreceded: "an etcd backend file with something in front of it", KindOpenSSL: "a file encrypted by openssl enc",
	}
}

func (k Kind) hint() string {
	switch k {
	case KindGzip:
		return "decompress it first: gzip -dk FILE, or zcat FILE > snapshot.db"
	case KindZip:
		return "unpack it first: unzip FILE"
	case KindZstd:
		return "decompress it first: zstd -d FILE"
	case KindXZ:
		return "decompress it first: xz -dk FILE"
	case KindBzip2:
		return "decompress it first: bzip2 -dk FILE"
	case KindLZ4:
		return "decompress it first: lz4 -d FILE"
	case KindTar:
		return "unpack it first: tar xf FILE"
	case KindAge:
		return "decrypt it first: age -d -i KEY FILE > snapshot.db"
	case KindDirectory:
		return "name the file: in a data directory it is member/snap/db"
	case KindEmpty, KindShort, KindZeros, KindMarkup:
		return "the download or copy failed; fetch it again, and compare its size with the original's"
	case KindRaftSnap:
		return "the keys are in the file db beside it; a snapshot to restore is made by `kvd snapshot save`"
	case KindBase64:
		return "decode it first: base64 -d FILE > snapshot.db"
	case KindCRLF:
		return CRLFHint
	case KindRecoded:
		return "what it was can't be had back; fetch it again without anything that takes it for text: kubectl cp, scp"
	case KindOpenSSL:
		return "decrypt it first: openssl enc -d, with the cipher and options that it was encrypted with"
	case KindSQLite:
		return "it is no etcd's; k3s with etcd has its snapshots in server/db/snapshots"
	case KindChecksum:
		return "name the file that the checksum is of"
	}
	return ""
}

// magics are the first bytes of the kinds that have some.
func magics() map[Kind][]byte {
	return map[Kind][]byte{
		KindGzip: {0x1f, 0x8b}, KindZip: []byte("PK\x03\x04"), KindZstd: {0x28, 0xb5, 0x2f, 0xfd},
		KindXZ: {0xfd, '7', 'z', 'X', 'Z', 0}, KindBzip2: []byte("BZh"), KindLZ4: {0x04, 0x22, 0x4d, 0x18},
		KindAge: []byte("age-encryption.org/"), KindSQLite: []byte("SQLite format 3\x00"), KindOpenSSL: []byte("Salted__"),
	}
}

// sniffed is how much is read to see what a content is.
const sniffed = 64 << 10

// sniff says what a content of size bytes seems to be. It reads 64 KiB at most.
func sniff(r io.ReaderAt, size int64) (Kind, error) {
	if size == 0 {
		return KindEmpty, nil
	}
	head := make([]byte, min(size, sniffed))
	if n, err := r.ReadAt(head, 0); err != nil && !(err == io.EOF && n == len(head)) { //nolint:errorlint // ReaderAt's contract
		return KindOther, err
	}
	for kind, m := range magics() {
		if bytes.HasPrefix(head, m) {
			return kind, nil
		}
	}
	switch {
	case hasBackendMagic(head) && size < 2*minPageSize:
		return KindShort, nil
	case hasBackendMagic(head) && crlf(head):
		return KindCRLF, nil
	case hasBackendMagic(head):
		return KindBackend, nil
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return KindTar, nil
	case len(bytes.Trim(head, "\x00")) == 0:
		return KindZeros, nil
	case looksLikeWAL(head):
		return KindWAL, nil
	}
	if k, ok := convertedKind(head); ok {
		return k, nil
	}
	if k, ok := textKind(head); ok {
		return k, nil
	}
	if size < 2*(pageHeaderSize+metaSize) {
		return KindShort, nil
	}
	return KindOther, nil
}

// hasBackendMagic looks for the magic number in the first meta page, and in the
// second at each page size there is.
func hasBackendMagic(head []byte) bool {
	is := func(off int) bool {
		if off+4 > len(head) {
			return false
		}
		m := binary.LittleEndian.Uint32(head[off:])
		return m == magic || m == bits.ReverseBytes32(magic)
	}
	if is(pageHeaderSize) {
		return true
	}
	for size := minPageSize; size < len(head); size <<= 1 {
		if is(size + pageHeaderSize) {
			return true
		}
	}
	return false
}

// looksLikeWAL recognises the first record of a log file: a length field, then a
// CRC record of type 4 (server/v3/storage/wal: encoder.go, wal.go).
func looksLikeWAL(head []byte) bool {
	return len(head) >= 10 && head[8] == 0x08 && head[9] == 0x04 && head[7]&0x80 != 0
}

func textKind(head []byte) (Kind, bool) {
	text := bytes.TrimSpace(head)
	if !utf8.Valid(text[:max(0, len(text)-utf8.UTFMax)]) || bytes.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t'
	}) {
		return "", false
	}
	lower := bytes.ToLower(text[:min(len(text), 64)])
	switch {
	case bytes.HasPrefix(lower, []byte("<!doctype")), bytes.HasPrefix(lower, []byte("<html")), bytes.HasPrefix(lower, []byte("<?xml")), bytes.HasPrefix(lower, []byte("<error")):
		return KindMarkup, true
	case len(text) >= 64 && len(bytes.TrimLeft(lower, "0123456789abcdef")) == 0 && (len(text) == 64 || text[64] == ' ' || text[64] == '\n'):
		return KindChecksum, true
	case bytes.HasPrefix(text, []byte("{")), bytes.HasPrefix(text, []byte("[")):
		return KindJSON, true
	}
	return KindText, len(text) > 0
}
