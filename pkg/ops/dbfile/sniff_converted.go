package dbfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
)

const (
	crlfWords = "an etcd backend file that came through a terminal, which has put a carriage return before each newline"
	// CRLFHint says how to have back what was before a terminal changed it: it puts
	// one carriage return before each newline, and changes nothing else (ONLCR).
	CRLFHint = "nothing is lost: perl -pe 'BEGIN { $/ = chr(13).chr(10) } $_ .= chr(10) if chomp' FILE > snapshot.db takes them out again, and the hash tells whether that was all; kubectl exec, docker exec and ssh change nothing without -t"
	// fewestNewlines is how many must have one, all of them, for it to be no accident:
	// a byte is a carriage return by chance in one of 256 cases.
	fewestNewlines = 8
	// crlfRead is how much is read to find out.
	crlfRead = 1 << 20
)

// ThroughTerminal reports that a terminal has put a carriage return before each
// newline byte of the content. It reads 1 MiB at most.
func (f *File) ThroughTerminal() bool {
	head := make([]byte, min(f.size, crlfRead))
	n, err := f.r.ReadAt(head, 0)
	return (err == nil || err == io.EOF) && crlf(head[:n]) //nolint:errorlint // ReaderAt's contract
}

// crlf reports that each newline byte has a carriage return before it.
func crlf(b []byte) bool {
	n := bytes.Count(b, []byte("\n"))
	return n >= fewestNewlines && bytes.Count(b, []byte("\r\n")) == n
}

// raftSnap matches the names of the .snap files that etcd writes beside its database
// (server/etcdserver/api/snap/snapshotter.go, save).
func raftSnap() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{16}-[0-9a-f]{16}\.snap$`) }

// convertedKind recognises a backend file that something has changed on its way:
// written as base64, in UTF-16, with U+FFFD for what is no UTF-8, as UTF-8 of Latin-1,
// or behind the output of a command.
func convertedKind(head []byte) (Kind, bool) {
	switch {
	case bytes.HasPrefix(head, []byte("AAAAAAAAAAAEAAAAAAAAAO3aDO0")): // page 0, its type, the magic number
		return KindBase64, true
	case bytes.HasPrefix(head, []byte("\xff\xfe")) && bytes.Count(head, []byte{0}) > len(head)/4,
		bytes.Count(head, []byte("\uFFFD")) >= fewestNewlines && bytes.IndexByte(head, 0) >= 0,
		bytes.Contains(head, []byte("\xc3\xad\xc3\x9a\x0c\xc3\xad")):
		return KindRecoded, true
	case preceded(head) > 0:
		return KindPreceded, true
	}
	return "", false
}

// preceded is how many bytes stand before the first page, 0 where none is found.
func preceded(head []byte) int {
	want := make([]byte, pageHeaderSize+8) // page 0, a meta page, magic number and version
	binary.LittleEndian.PutUint16(want[8:], flagMeta)
	binary.LittleEndian.PutUint32(want[pageHeaderSize:], magic)
	binary.LittleEndian.PutUint32(want[pageHeaderSize+4:], formatVersion)
	return max(0, bytes.Index(head, want))
}

// hintOf is what to do about a content of another kind.
func (f *File) hintOf(k Kind) string {
	if k != KindPreceded {
		return k.hint()
	}
	head := make([]byte, min(f.size, sniffed))
	n, _ := f.r.ReadAt(head, 0) //nolint:errcheck // it was read before
	at := preceded(head[:n])
	return fmt.Sprintf("cut it off: tail -c +%d FILE > snapshot.db. A command that wrote to the same place did it, as etcdctl does with \"Snapshot saved at\"", at+1)
}
