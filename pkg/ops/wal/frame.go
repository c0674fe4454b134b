package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// castagnoli is the polynomial of the log's CRC.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	lengthBytes = 8   // before each record
	sectorBytes = 512 // what a disk writes as a whole (minSectorSize in decoder.go)

	// maxRecord is more than any member can send another: 512 MB
	// (readBytesLimit in server/etcdserver/api/rafthttp/msg_codec.go). A longer
	// length is damage, and no reason to ask for memory.
	maxRecord = 512 << 20
	// chunk is how much of a long record is looked at before there is memory for it.
	chunk = 1 << 20
)

// reader reads the records of one segment after the other.
type reader struct {
	crc  CRC    // over the data of all records so far
	meta []byte // of the first metadata record
	buf  []byte // of the record in hand; nil where it was not kept, see read
	void bool   // then: a sector of it is zero
	long []byte // memory for one that is longer than a piece of the read-ahead

	in    ahead
	seg   Segment
	last  bool  // no segment follows
	off   int64 // behind the last record
	limit int64 // bytes of the segment
}

// open goes on with a segment. size is that of the file now.
func (r *reader) open(seg Segment, in io.ReaderAt, size int64, last bool) {
	r.seg, r.last, r.limit = seg, last, size
	r.seek(in, 0)
}

// seek goes on at an offset of the segment.
func (r *reader) seek(in io.ReaderAt, offset int64) {
	r.in.reset(in, offset)
	r.off = offset
}

// close ends the reading. Whoever opened a segment has to.
func (r *reader) close() { r.in.stop() }

// next reads a record. It returns io.EOF at the end of the segment's data, and
// *Damage where it cannot go on.
func (r *reader) next(rec *Record) error {
	if err := r.frame(rec); err != nil {
		return err
	}
	if err := r.chain(rec); err != nil {
		return err
	}
	return r.accept(rec)
}

// frame reads a record's bytes and decodes the record around what it holds. It
// sets rec.Size once all of it was read, be it a record or not.
func (r *reader) frame(rec *Record) error {
	*rec = Record{Position: r.here()}
	length, err := r.length()
	if err != nil {
		return err
	}
	if length == 0 {
		return io.EOF
	}
	n, pad := sizes(length)
	if n > r.limit-r.off-pad-lengthBytes {
		return r.damage(Torn, "a record of %d bytes, with %d left in the file", n, max(0, r.limit-r.off-lengthBytes))
	}
	if n > maxRecord {
		return r.damage(Broken, "a record of %d bytes, more than any request has", n)
	}
	if r.buf, err = r.read(n, pad); err != nil {
		return err
	}
	rec.Size = lengthBytes + n + pad
	if r.buf == nil && n > 0 || !rec.frameRecord(r.buf[:n]) {
		*rec = Record{Position: rec.Position, Size: rec.Size}
		return r.orTorn(Damage{Class: Broken, Why: "the record is no walpb.Record"})
	}
	return nil
}

// length reads the length field. At the end of the file it is 0.
func (r *reader) length() (uint64, error) {
	b, err := r.in.take(lengthBytes)
	switch {
	case err == nil:
		return binary.LittleEndian.Uint64(b), nil
	case !errors.Is(err, io.EOF):
		return 0, unreadable(r.seg.Name, err)
	case len(b) > 0:
		return 0, r.damage(Torn, "%d bytes of a length field, then the file ends", len(b))
	}
	return 0, nil
}

// sizes are what a length field says: the bytes of a record, and those of its padding
// (decodeFrameSize in decoder.go).
func sizes(length uint64) (n, pad int64) {
	n = int64(length & (1<<56 - 1))
	if length>>63 == 1 {
		pad = int64(length >> 56 & 7)
	}
	return n, pad
}

// read returns the bytes of a record with its padding, valid until the next call. The
// file has as many, or had them when it was opened. Where the first of many are no
// record of that length, none are kept, and it returns nil behind them.
func (r *reader) read(n, pad int64) ([]byte, error) {
	r.void = false
	size := n + pad
	if size <= pieceBytes {
		b, err := r.in.take(int(size))
		return b, r.cutShort(size, len(b), err)
	}
	piece := func(at int64) int64 { return min(size-at, chunk-(r.off+lengthBytes+at)%sectorBytes) } // to the end of a sector
	first := piece(0)
	r.room(min(size, chunk))
	if got, err := io.ReadFull(&r.in, r.long[:first]); err != nil {
		return nil, r.cutShort(size, got, err)
	}
	if beginsMessage(r.long[:min(first, n)], n) {
		r.room(size)
		got, err := io.ReadFull(&r.in, r.long[first:size])
		return r.long[:size], r.cutShort(size, int(first)+got, err)
	}
	r.void = zeroSector(r.long[:first], r.off+lengthBytes)
	for at := first; at < size; {
		b := r.long[:piece(at)]
		if got, err := io.ReadFull(&r.in, b); err != nil {
			return nil, r.cutShort(size, int(at)+got, err)
		}
		r.void = r.void || zeroSector(b, r.off+lengthBytes+at)
		at += int64(len(b))
	}
	return nil, nil
}

// room makes r.long so long, with what is in it: at once, since growing would take
// twice as much.
func (r *reader) room(n int64) {
	if int64(cap(r.long)) < n {
		long := make([]byte, n)
		copy(long, r.long)
		r.long = long
	}
	r.long = r.long[:max(n, int64(len(r.long)))]
}

// cutShort names what a record's bytes could not be read for; nil is none.
func (r *reader) cutShort(n int64, got int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.damage(Torn, "a record of %d bytes, of which the file has %d", n, got)
	}
	return unreadable(r.seg.Name, err)
}

// chain holds a record against the CRC of all before it.
func (r *reader) chain(rec *Record) error {
	if rec.Type == CRCType {
		// A reader that has seen nothing yet takes any value for the beginning.
		if r.crc != 0 && rec.CRC != r.crc {
			d := r.damage(BadChain, "the CRC of what came before is %s, here it is said to be %s: a segment is missing or was replaced", r.crc, rec.CRC)
			d.StoredCRC, d.ComputedCRC = new(rec.CRC), new(r.crc)
			return d
		}
		r.crc = rec.CRC
		return nil
	}
	sum, ok := r.in.sum(rec.Offset, r.crc)
	if !ok {
		sum = CRC(crc32.Update(uint32(r.crc), castagnoli, rec.Data))
	}
	if sum != rec.CRC {
		return r.orTorn(Damage{Class: BadCRC, Why: fmt.Sprintf("the record's CRC is stored as %s and computed as %s", rec.CRC, sum),
			StoredCRC: new(rec.CRC), ComputedCRC: new(sum)})
	}
	r.crc = sum
	return nil
}

// accept decodes what a record holds, and goes on behind it.
func (r *reader) accept(rec *Record) error {
	ok, known := rec.content()
	if rec.Type == MetadataType { // compared before it is decoded, as in ReadAll
		if r.meta == nil {
			r.meta = append([]byte{}, rec.Data...)
		}
		if !bytes.Equal(r.meta, rec.Data) {
			return r.damage(Conflict, "metadata of member %s of cluster %s, other than before", rec.Metadata.Member, rec.Metadata.Cluster)
		}
	}
	switch {
	case !known:
		return r.damage(Unknown, "a record of type %d", rec.Type)
	case !ok:
		return r.damage(BadData, "what a record of type %d holds cannot be decoded", rec.Type)
	}
	r.off += rec.Size
	return nil
}

// orTorn takes damage for a torn write where etcd does: in the last segment, if
// a whole sector of the record is zero (isTornEntry in decoder.go).
func (r *reader) orTorn(d Damage) error {
	d.Position, d.Last = r.here(), r.last
	if r.last && (r.void || zeroSector(r.buf, r.off+lengthBytes)) {
		d.Class, d.Why = Torn, "a sector of the record was never written"
	}
	return &d
}

// zeroSector reports whether b, which begins at an offset of the file, holds a sector,
// or the part of one that it has, of zeros alone.
func zeroSector(b []byte, at int64) bool {
	for len(b) > 0 {
		n := min(int64(len(b)), sectorBytes-at%sectorBytes)
		if allZero(b[:n]) {
			return true
		}
		b, at = b[n:], at+n
	}
	return false
}

// allZero reports that there is nothing else in b: the first byte is zero, and each
// other is as the one before.
func allZero(b []byte) bool { return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1]) }

func (r *reader) here() Position { return Position{File: r.seg.Name, Offset: r.off} }

func (r *reader) damage(c Class, format string, args ...any) *Damage {
	return &Damage{Class: c, Position: r.here(), Last: r.last, Why: fmt.Sprintf(format, args...)}
}
