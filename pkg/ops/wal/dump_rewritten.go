package wal

import (
	"encoding/binary"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"kvd/pkg/ops/fault"
)

// maxMarks is how many of the last records are remembered of a segment that is
// followed. A server that starts cuts off at most its last record, and with it what
// the disk did not keep of those before.
const maxMarks = 4096

// mark is where a record ended that was read, and the CRC up to there.
type mark struct {
	at, end int64
	crc     CRC
}

// marks are the last records of a segment, to see whether they are still there: a
// server that starts on a log with a torn end cuts it off, and writes on before the
// place that a reader has come to.
type marks struct {
	begin mark // before the first record
	last  []mark
	lost  bool // there were more
}

func (m *marks) reset(crc CRC) { *m = marks{begin: mark{crc: crc}, last: m.last[:0]} }

func (m *marks) add(r *Record, crc CRC) {
	if len(m.last) == maxMarks {
		m.last, m.lost = append(m.last[:0], m.last[maxMarks/2:]...), true
	}
	m.last = append(m.last, mark{r.Offset, r.Offset + r.Size, crc})
}

// back returns the last record that is still as it was read, and whether there were
// others behind it.
func (m *marks) back(f io.ReaderAt, name string) (k mark, rewritten bool, err error) {
	for i := len(m.last) - 1; i >= 0; i-- {
		if k = m.last[i]; crcAt(f, k.at) == k.crc {
			rewritten = i < len(m.last)-1
			m.last = m.last[:i+1]
			return k, rewritten, nil
		}
	}
	if m.lost {
		return mark{}, false, &fault.Error{Kind: fault.Inconclusive, Cause: "wal_rewritten", Op: "follow the WAL", Subject: name,
			Msg: "what was read of it is no longer there", Hint: "begin again: the server was stopped, and its log cut or replaced"}
	}
	rewritten = len(m.last) > 0
	m.last = m.last[:0]
	return m.begin, rewritten, nil
}

// crcAt is the CRC that the record at an offset has stored; 0 where there is none.
func crcAt(f io.ReaderAt, at int64) CRC {
	var b [lengthBytes + 32]byte
	n, err := f.ReadAt(b[:], at)
	if err != nil && n < lengthBytes || binary.LittleEndian.Uint64(b[:]) == 0 {
		return 0
	}
	for rest := b[lengthBytes:n]; ; {
		num, typ, k := protowire.ConsumeTag(rest)
		if k < 0 || typ != protowire.VarintType {
			return 0
		}
		v, more := protowire.ConsumeVarint(rest[k:])
		if more < 0 {
			return 0
		}
		if num == 2 {
			return CRC(v) //nolint:gosec // cut to 32 bits, as protobuf does
		}
		rest = rest[k+more:]
	}
}
