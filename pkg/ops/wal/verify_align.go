package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
)

// resume goes on behind a damaged record: at the next one if the damaged one's
// length can be right, else wherever records begin again. It reports whether they
// do.
func (w *walker) resume(ctx context.Context, d *Damage, rec *Record) bool {
	if d.Class == Unknown || d.Class == Conflict || d.Class == BadData { // its CRC was right
		w.r.seek(w.f, rec.Offset+rec.Size)
		return true
	}
	var known []CRC // either the data or the stored CRC is damaged
	if d.StoredCRC != nil {
		known = []CRC{*d.StoredCRC, *d.ComputedCRC}
	}
	if next := rec.Offset + rec.Size; rec.Size > 0 && w.begins(next, known...) {
		switch {
		case d.Class == BadChain:
			w.r.crc = rec.CRC
		case d.StoredCRC != nil:
			w.r.crc, w.alt = *d.StoredCRC, d.ComputedCRC
		default:
			w.adopt = true
		}
		w.r.seek(w.f, next)
		return true
	}
	next := w.realign(ctx, rec.Offset+lengthBytes)
	if next < 0 {
		return false
	}
	w.r.seek(w.f, next)
	w.adopt, w.alt = true, nil
	return true
}

// realign finds the first place from which records can be read, -1 if there is none.
// Frames are a multiple of 8 bytes long, so that each begins at one. Most damage is
// short; bytes that are made to look like long records are not tried for ever.
func (w *walker) realign(ctx context.Context, from int64) int64 {
	buf := make([]byte, 4<<10)
	for off := (from + 7) &^ 7; off < w.r.limit && w.trials > 0 && ctx.Err() == nil; {
		n, err := w.f.ReadAt(buf[:min(int64(len(buf)), w.r.limit-off)], off)
		for i := 0; i+lengthBytes <= n && w.trials > 0; i += lengthBytes {
			at := off + int64(i)
			if w.canBeLength(binary.LittleEndian.Uint64(buf[i:]), at) && w.begins(at) {
				return at
			}
		}
		if n < lengthBytes || err != nil && !errors.Is(err, io.EOF) {
			return -1
		}
		off += int64(n) &^ 7
		if len(buf) < pieceBytes {
			buf = make([]byte, 2*len(buf))
		}
	}
	return -1
}

// canBeLength reports whether a record of this length can be at an offset: within
// the segment, and padded as etcd does (encodeFrameSize in encoder.go).
func (w *walker) canBeLength(length uint64, at int64) bool {
	n, pad := int64(length&(1<<56-1)), int64(length>>56&7)
	if n == 0 || n > min(maxRecord, w.r.limit-at-lengthBytes-pad) {
		return false
	}
	want := -n & 7
	return pad == want && length>>59 == map[bool]uint64{true: 0x10, false: 0}[want > 0]
}

// begins reports whether records begin at an offset, or the rest of the segment
// is empty. One record alone could be chance. That its CRC goes on from one that is
// known is none, nor that the next one's goes on from its.
func (w *walker) begins(at int64, known ...CRC) bool {
	first, end, ok := w.recordAt(at)
	if !ok {
		return end && firstData(w.f, at, w.r.limit) < 0
	}
	if slices.ContainsFunc(known, first.follows) {
		return true
	}
	second, end, ok := w.recordAt(at + first.Size)
	if !ok {
		return end
	}
	return second.follows(first.CRC)
}

// follows reports whether a record's CRC goes on from that of the one before.
func (r *Record) follows(before CRC) bool {
	if r.Type == CRCType {
		return r.CRC == before
	}
	return CRC(crc32.Update(uint32(before), castagnoli, r.Data)) == r.CRC
}

// recordAt reads a record beside the stream, valid until the next call. end reports that there is none: the
// segment is over, or a length of 0 stands there.
func (w *walker) recordAt(at int64) (rec Record, end, ok bool) {
	// Length, and the first fields as etcd writes them: type, then CRC.
	var head [lengthBytes + 3]byte
	n, _ := w.f.ReadAt(head[:min(int64(len(head)), max(0, w.r.limit-at))], at)
	if n < lengthBytes {
		return rec, n == 0 || allZero(head[:n]), false
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length == 0 {
		return rec, true, false
	}
	if n < len(head) || !w.canBeLength(length, at) || head[8] != 1<<3 || Type(head[9]) < MetadataType || Type(head[9]) > SnapshotType || head[10] != 2<<3 {
		return rec, false, false
	}
	size := int64(length & (1<<56 - 1))
	if int64(cap(w.trial)) < size {
		w.trial = make([]byte, size)
	}
	raw := w.trial[:size]
	w.trials -= size
	if _, err := w.f.ReadAt(raw, at+lengthBytes); err != nil || !rec.frameRecord(raw) {
		return rec, false, false
	}
	rec.Size = lengthBytes + size + int64(length>>56&7)
	return rec, false, true
}

// firstData finds the first byte in [from, to) of a file that is not zero; -1 if
// there is none. What the file system knows as a hole, which is most of a segment that
// etcd has made longer than what is in it, is not read.
func firstData(f *os.File, from, to int64) int64 {
	const piece = 64 << 10 // there is little to read in most cases, and memory is dear where it is used for the first time
	buf := make([]byte, piece)
	for off := behindHole(f, from); off < to; {
		n, err := f.ReadAt(buf[:min(piece, to-off)], off)
		if !allZero(buf[:n]) {
			return off + int64(slices.IndexFunc(buf[:n], func(b byte) bool { return b != 0 }))
		}
		off += int64(n)
		if n == 0 || err != nil && !errors.Is(err, io.EOF) {
			return -1
		}
	}
	return -1
}
