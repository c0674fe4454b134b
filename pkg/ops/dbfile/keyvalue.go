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
	err := eachField(b, func(num protowire.Number, bytes []byte, n uint64, typ protowire.Type) {
		switch {
		case num == 1 && typ == protowire.BytesType:
			kv.Key = bytes
		case num == 2 && typ == protowire.VarintType:
			kv.CreateRevision = int64(n)
		case num == 3 && typ == protowire.VarintType:
			kv.ModRevision = int64(n)
		case num == 4 && typ == protowire.VarintType:
			kv.Version = int64(n)
		case num == 5 && typ == protowire.BytesType:
			kv.Value = bytes
		case num == 6 && typ == protowire.VarintType:
			kv.Lease = int64(n)
		}
	})
	return kv, err
}

// eachField calls fn for each field of a message, with its bytes or its number.
func eachField(b []byte, fn func(num protowire.Number, bytes []byte, n uint64, typ protowire.Type)) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || num > protowire.MaxValidNumber {
			return errWire
		}
		b = b[n:]
		var data []byte
		var number uint64
		switch typ {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errWire
		}
		b = b[n:]
		fn(num, data, number, typ)
	}
	return nil
}
