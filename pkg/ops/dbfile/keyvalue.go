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
	if !kv.parse(b) {
		return KeyValue{}, errWire
	}
	return kv, nil
}

// parse decodes into an empty message: fields as etcd writes them here, and whatever
// else may come by field. It is false where b is no message.
func (kv *KeyValue) parse(b []byte) bool {
	for len(b) > 0 {
		var ok bool
		switch b[0] { // the number of the field << 3, and its type: 0 a varint, 2 bytes
		case 1<<3 | 2:
			kv.Key, b, ok = cutBytes(b)
		case 2 << 3:
			kv.CreateRevision, b, ok = cutNumber(b)
		case 3 << 3:
			kv.ModRevision, b, ok = cutNumber(b)
		case 4 << 3:
			kv.Version, b, ok = cutNumber(b)
		case 5<<3 | 2:
			kv.Value, b, ok = cutBytes(b)
		case 6 << 3:
			kv.Lease, b, ok = cutNumber(b)
		default:
			var f field
			b = f.next(b)
			ok = b != nil
			f.into(kv)
		}
		if !ok {
			return false
		}
	}
	return true
}

// cutNumber reads a varint behind a tag of one byte, and returns what is behind it.
func cutNumber(b []byte) (int64, []byte, bool) {
	if len(b) > 1 && b[1] < 1<<7 {
		return int64(b[1]), b[2:], true
	}
	n, size := protowire.ConsumeVarint(b[1:])
	if size < 0 {
		return 0, nil, false
	}
	return int64(n), b[1+size:], true //nolint:gosec // as it was
}

// cutBytes reads bytes behind their length and a tag of one byte, and returns what
// is behind them.
func cutBytes(b []byte) (value, rest []byte, ok bool) {
	n, size := protowire.ConsumeVarint(b[1:])
	if size < 0 || n > uint64(len(b)-1-size) {
		return nil, nil, false
	}
	from := 1 + size
	end := from + int(n) //nolint:gosec // within b
	return b[from:end:end], b[end:], true
}

// into takes a field over.
func (f *field) into(kv *KeyValue) {
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
