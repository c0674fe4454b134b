package wal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// sum is the CRC of a log up to and with the data of a record, computed from what it
// was before the record.
type sum struct {
	at            int64 // where the record begins
	before, after CRC
}

// summing computes the CRCs of a segment from its beginning on, while it is copied out
// of the page cache: the core that does it has the bytes at hand then. It decides
// nothing. Whoever reads the records looks whether a sum is of the record that he has,
// from the CRC that he has, and computes it himself where there is none. There are none
// behind a record that is not written as etcd does it.
type summing struct {
	pos   int64 // of the byte that comes next
	front []byte
	lost  bool

	record    sum
	data, pad int64 // bytes of the record that are still to come
}

// frontBytes is more than stands in front of a record's data: its length, its type,
// its CRC, and the length of the data.
const frontBytes = 48

// over goes on with the bytes that follow, and adds the sums of the records that end
// in them.
func (s *summing) over(b []byte, sums []sum) []sum {
	for len(b) > 0 && !s.lost {
		n := 0
		switch {
		case s.data > 0:
			n = int(min(s.data, int64(len(b))))
			s.record.after = CRC(crc32.Update(uint32(s.record.after), castagnoli, b[:n]))
			s.data -= int64(n)
		case s.pad > 0:
			n = int(min(s.pad, int64(len(b))))
			s.pad -= int64(n)
		default:
			n = s.begin(b)
		}
		s.pos += int64(n)
		b = b[n:]
		if s.data == 0 && s.pad == 0 && len(s.front) == 0 && !s.lost {
			sums = append(sums, s.record)
		}
	}
	return sums
}

// begin decodes what stands in front of a record's data, of which a part may be in
// s.front, and returns how much of b that took.
func (s *summing) begin(b []byte) int {
	had := len(s.front)
	if had == 0 {
		s.record = sum{at: s.pos, before: s.record.after, after: s.record.after}
	}
	front := b[:min(len(b), frontBytes)]
	if had > 0 {
		front = append(s.front, front...)
	}
	took, err := s.decode(front)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && len(front) < frontBytes:
		s.front = slices.Clone(front)
		return len(b)
	case err != nil:
		s.lost = true
		return len(b)
	}
	s.front = nil
	return took - had
}

// decode decodes a record up to its data. It returns io.ErrUnexpectedEOF where b ends
// before that.
func (s *summing) decode(b []byte) (took int, err error) {
	if len(b) < lengthBytes {
		return 0, io.ErrUnexpectedEOF
	}
	n, pad := sizes(binary.LittleEndian.Uint64(b))
	var typ, crc uint64
	whole := int64(len(b)) >= lengthBytes+n
	message := b[lengthBytes:min(int64(len(b)), lengthBytes+n)]
	rest := message
	for i, to := range []*uint64{&typ, &crc} {
		if rest, err = field(rest, byte(i+1)<<3|byte(protowire.VarintType), to); err != nil {
			return 0, err
		}
	}
	var data uint64
	if !whole || len(rest) > 0 {
		if rest, err = field(rest, 3<<3|byte(protowire.BytesType), &data); err != nil {
			return 0, err
		}
	}
	took = lengthBytes + len(message) - len(rest)
	if data != uint64(lengthBytes+n-int64(took)) { //nolint:gosec // what is left of the record
		return 0, errNotAlike
	}
	if Type(typ) == CRCType { //nolint:gosec // an int64 on the wire
		s.record.after = CRC(crc) //nolint:gosec // cut to 32 bits, as protobuf does
	}
	s.data, s.pad = int64(data), pad //nolint:gosec // see above
	return took, nil
}

var errNotAlike = errors.New("not as etcd writes a record")

// field decodes a tag of one byte, which is known, and the number behind it.
func field(b []byte, tag byte, to *uint64) ([]byte, error) {
	if len(b) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if b[0] != tag {
		return nil, errNotAlike
	}
	v, n := protowire.ConsumeVarint(b[1:])
	if n < 0 {
		return nil, protowire.ParseError(n)
	}
	*to = v
	return b[1+n:], nil
}
