package dbfile

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// KeyValue is mvccpb.KeyValue without a copy: Key and Value are parts of the
// bytes that it was parsed from.
type KeyValue struct {
	Key, Value     []byte
	CreateRevision int64
	ModRevision    int64
	Version        int64
	Lease          int64
}

// errWire says that bytes are no protocol buffer.
var errWire = errors.New("not a valid protocol buffer")

// ParseKeyValue decodes an mvccpb.KeyValue and accepts exactly what the generated
// code accepts: unknown fields are skipped, and of a repeated one the last holds.
//
// Source: go.etcd.io/etcd/api/v3 v3.7.3, mvccpb/kv.proto.
func ParseKeyValue(b []byte) (KeyValue, error) {
	var kv KeyValue
	var f field
	for len(b) > 0 {
		if b = f.next(b); b == nil {
			return KeyValue{}, errWire
		}
		switch {
		case f.num == 1 && f.typ == protowire.BytesType:
			kv.Key = f.bytes
		case f.num == 2 && f.typ == protowire.VarintType:
			kv.CreateRevision = int64(f.n)
		case f.num == 3 && f.typ == protowire.VarintType:
			kv.ModRevision = int64(f.n)
		case f.num == 4 && f.typ == protowire.VarintType:
			kv.Version = int64(f.n)
		case f.num == 5 && f.typ == protowire.BytesType:
			kv.Value = f.bytes
		case f.num == 6 && f.typ == protowire.VarintType:
			kv.Lease = int64(f.n)
		}
	}
	return kv, nil
}

// field is one field of a message: its bytes or its number.
type field struct {
	num   protowire.Number
	typ   protowire.Type
	bytes []byte
	n     uint64
}

// next reads the first field of b and returns what is behind it, nil where b is no
// message.
func (f *field) next(b []byte) []byte {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num > protowire.MaxValidNumber {
		return nil
	}
	b = b[n:]
	f.num, f.typ, f.bytes, f.n = num, typ, nil, 0
	switch typ {
	case protowire.VarintType:
		f.n, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(num, typ, b)
	}
	if n < 0 {
		return nil
	}
	return b[n:]
}
