package wal

import (
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages are decoded by hand, as etcd's generated code does it but without
// an allocation for each: a field of an unexpected wire type counts as unknown,
// an unknown one is skipped, the last of several wins.

// walk calls number for varint fields and bytes for length-delimited ones. It
// reports whether the whole message could be decoded.
func walk(b []byte, number func(protowire.Number, uint64), bytes func(protowire.Number, []byte)) bool {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		switch typ {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return false
			}
			number(num, v)
			b = b[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return false
			}
			if bytes != nil {
				bytes(num, v)
			}
			b = b[n:]
		default:
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return false
			}
			b = b[n:]
		}
	}
	return true
}

// beginsMessage reports whether b can be the first bytes of a message of n bytes.
func beginsMessage(b []byte, n int64) bool {
	open := func(n int) bool { return errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF) } // goes on behind b
	for at := int64(0); at < int64(len(b)); {
		num, typ, k := protowire.ConsumeTag(b[at:])
		if k < 0 {
			return open(k)
		}
		at += int64(k)
		if typ != protowire.BytesType {
			if k = protowire.ConsumeFieldValue(num, typ, b[at:]); k < 0 {
				return open(k)
			}
			at += int64(k)
			continue
		}
		v, k := protowire.ConsumeVarint(b[at:])
		if k < 0 {
			return open(k)
		}
		if at += int64(k); v > uint64(n-at) { //nolint:gosec // at is no more than n
			return false
		}
		at += int64(v) //nolint:gosec // no more than n
	}
	return true
}

// inOrder decodes a message as etcd writes it: the varint fields 1, 2 and so on into
// numbers, and then one of bytes, which may be missing, to the message's end. It
// reports whether it was one of these; others are for walk. Records and entries are
// all alike, and by far the most of what is decoded.
func inOrder(b []byte, numbers ...*uint64) (bytes []byte, ok bool) {
	tag := byte(0)
	for _, to := range numbers {
		tag += 1 << 3
		if len(b) < 2 || b[0] != tag|byte(protowire.VarintType) {
			return nil, false
		}
		n := 1
		if *to = uint64(b[1]); b[1] >= 0x80 {
			if *to, n = protowire.ConsumeVarint(b[1:]); n < 0 {
				return nil, false
			}
		}
		b = b[1+n:]
	}
	if len(b) == 0 {
		return nil, true
	}
	if b[0] != tag+1<<3|byte(protowire.BytesType) {
		return nil, false
	}
	v, n := protowire.ConsumeBytes(b[1:])
	return v, n == len(b)-1
}

// frameRecord decodes a walpb.Record (type = 1, crc = 2, data = 3).
func (r *Record) frameRecord(b []byte) bool {
	var typ, crc uint64
	if data, ok := inOrder(b, &typ, &crc); ok {
		r.Type, r.CRC, r.Data = Type(typ), CRC(crc), data //nolint:gosec // as below
		return true
	}
	return walk(b, func(num protowire.Number, v uint64) {
		switch num {
		case 1:
			r.Type = Type(v) //nolint:gosec // an int64 on the wire
		case 2:
			r.CRC = CRC(v) //nolint:gosec // cut to 32 bits, as protobuf does
		}
	}, func(num protowire.Number, v []byte) {
		if num == 3 {
			r.Data = v
		}
	})
}

// content decodes what the record holds. It reports whether that could be done;
// the second value says whether the type is known.
func (r *Record) content() (ok, known bool) {
	switch r.Type {
	case MetadataType: // etcdserverpb.Metadata
		return walk(r.Data, func(num protowire.Number, v uint64) {
			switch num {
			case 1:
				r.Metadata.Member = ID(v)
			case 2:
				r.Metadata.Cluster = ID(v)
			}
		}, nil), true
	case EntryType: // raftpb.Entry
		var typ uint64
		if data, ok := inOrder(r.Data, &typ, &r.Entry.Term, &r.Entry.Index); ok {
			r.Entry.Type, r.Entry.Data = int32(typ), data //nolint:gosec // as below
			return true, true
		}
		r.Entry.Term, r.Entry.Index = 0, 0 // what was decoded before it turned out to be another
		return walk(r.Data, func(num protowire.Number, v uint64) {
			switch num {
			case 1:
				r.Entry.Type = int32(v) //nolint:gosec // an enum, cut as protobuf does
			case 2:
				r.Entry.Term = v
			case 3:
				r.Entry.Index = v
			}
		}, func(num protowire.Number, v []byte) {
			if num == 4 {
				r.Entry.Data = v
			}
		}), true
	case StateType: // raftpb.HardState
		return walk(r.Data, func(num protowire.Number, v uint64) {
			switch num {
			case 1:
				r.State.Term = v
			case 2:
				r.State.Vote = ID(v)
			case 3:
				r.State.Commit = v
			}
		}, nil), true
	case CRCType:
		return true, true
	case SnapshotType: // walpb.Snapshot; its voters are not needed here
		return walk(r.Data, func(num protowire.Number, v uint64) {
			switch num {
			case 1:
				r.Snapshot.Index = v
			case 2:
				r.Snapshot.Term = v
			}
		}, nil), true
	}
	return false, false
}

// front decodes type and CRC of a record, and of an entry its term and index, of
// the first bytes of its frame: as far as they go, in the order in which etcd
// writes them.
func (r *Record) front(b []byte) {
	next := func(num protowire.Number) (v uint64, ok bool) {
		got, typ, n := protowire.ConsumeTag(b)
		if n < 0 || got != num || typ != protowire.VarintType {
			return 0, false
		}
		v, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return 0, false
		}
		b = b[n+m:]
		return v, true
	}
	typ, ok := next(1)
	crc, ok2 := next(2)
	if !ok || !ok2 || Type(typ) < MetadataType || Type(typ) > SnapshotType { //nolint:gosec // checked
		return
	}
	r.Type, r.CRC = Type(typ), CRC(crc) //nolint:gosec // checked; cut to 32 bits, as protobuf does
	num, wire, n := protowire.ConsumeTag(b)
	if r.Type != EntryType || n < 0 || num != 3 || wire != protowire.BytesType {
		return
	}
	_, m := protowire.ConsumeVarint(b[n:]) // the length, of which not all need be there
	if m < 0 {
		return
	}
	b = b[n+m:]
	next(1) // left out by some versions where it is 0
	if term, ok := next(2); ok {
		if index, ok := next(3); ok {
			r.Entry.Term, r.Entry.Index = term, index
		}
	}
}
