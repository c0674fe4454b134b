package spool

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	zstdMagic      = 0xFD2FB528
	skippableMagic = 0x184D2A50 // and the fifteen above it
	skippableSize  = 8          // of its magic number and length
	// maxSkipped is how many skippable frames may stand before the first one with a
	// content: pzstd writes one.
	maxSkipped = 16
)

// compressionOf looks at the first frame that is not to be skipped. A file that is
// too short to be anything has none.
//
// Source: RFC 8878, 3.1.1 and 3.1.2.
func compressionOf(r io.ReaderAt) (string, error) {
	at := int64(0)
	for range maxSkipped + 1 {
		var head [skippableSize]byte
		n, err := r.ReadAt(head[:], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return None, err
		}
		magic := binary.LittleEndian.Uint32(head[:])
		switch {
		case n >= 4 && magic == zstdMagic:
			return Zstd, nil
		case n < len(head) || magic&^0xf != skippableMagic:
			return None, nil
		}
		at += skippableSize + int64(binary.LittleEndian.Uint32(head[4:]))
	}
	return None, nil
}

// frames follows the zstd frames of a file by their lengths, without decompressing
// them. It returns where the last one ends that is whole, and whether the file ends
// there or goes on with something that begins no frame.
//
// Source: RFC 8878, 3.1.1 (frames: header, blocks, checksum) and 3.1.2 (skippable frames).
func frames(r io.ReaderAt, size int64) (end int64, whole bool) {
	for end < size {
		head := make([]byte, min(zstd.HeaderMaxSize, size-end))
		var h zstd.Header
		if _, err := r.ReadAt(head, end); err != nil {
			return end, false
		}
		if err := h.Decode(head); len(head) < 4 || errors.Is(err, zstd.ErrMagicMismatch) {
			return end, end > 0
		} else if err != nil {
			return end, false
		}
		next := end + int64(h.HeaderSize)
		if h.Skippable {
			next += int64(h.SkippableSize)
		} else if next = blocks(r, next); next == 0 {
			return end, false
		} else if h.HasCheckSum {
			next += 4
		}
		if next > size {
			return end, false
		}
		end = next
	}
	return end, true
}

// blocks returns where the blocks of a frame end that begin at an offset, 0 where
// the file ends before.
func blocks(r io.ReaderAt, at int64) int64 {
	const headerSize, rle = 3, 1
	for {
		var b [headerSize]byte
		if _, err := r.ReadAt(b[:], at); err != nil {
			return 0
		}
		h := int64(b[0]) | int64(b[1])<<8 | int64(b[2])<<16
		at += headerSize
		if h>>1&3 == rle {
			at++ // one byte, however often it is repeated
		} else {
			at += h >> 3
		}
		if h&1 == 1 {
			return at
		}
	}
}

// window returns how many bytes back the first frame of a file may refer, 0 where it
// does not say.
func window(r io.ReaderAt) uint64 {
	head := make([]byte, zstd.HeaderMaxSize)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	var h zstd.Header
	if h.Decode(head[:n]) != nil {
		return 0
	}
	return h.WindowSize
}
