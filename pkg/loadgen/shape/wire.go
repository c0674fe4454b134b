package shape

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// span is a part of a message.
type span struct{ from, to int }

// path leads through nested messages by field numbers. In a stored value it begins
// with 2, the object in its runtime.Unknown; 2, 1 is the object's metadata.
type path = []protowire.Number

// field is one field of a message: a length-delimited one, or a varint. There are
// no others in what Kubernetes stores.
type field struct {
	num     protowire.Number
	typ     protowire.Type
	start   int  // of its tag
	payload span // without tag and length
}

// fieldsOf lists the fields of a message. It is for messages that kvd brings
// along: what is no message ends the list.
func fieldsOf(msg []byte) []field {
	var all []field
	for at := 0; at < len(msg); {
		num, typ, n := protowire.ConsumeTag(msg[at:])
		if n < 0 {
			return all
		}
		f := field{num: num, typ: typ, start: at, payload: span{from: at + n}}
		size := protowire.ConsumeFieldValue(num, typ, msg[at+n:])
		if size < 0 {
			return all
		}
		at += n + size
		f.payload.to = at
		if typ == protowire.BytesType {
			_, prefix := protowire.ConsumeVarint(msg[f.payload.from:])
			f.payload.from += prefix
		}
		all = append(all, f)
	}
	return all
}

// find returns where in msg the payloads of all fields at a path are.
func find(msg []byte, at path) []span {
	var all []span
	for _, f := range fieldsOf(msg) {
		switch {
		case f.num != at[0]:
		case len(at) == 1:
			all = append(all, f.payload)
		default:
			for _, s := range find(msg[f.payload.from:f.payload.to], at[1:]) {
				all = append(all, span{f.payload.from + s.from, f.payload.from + s.to})
			}
		}
	}
	return all
}

// edit returns msg with the payload of each field at a path replaced by what
// change makes of it; of nil nothing is left. Lengths around it follow.
func edit(msg []byte, at path, change func([]byte) []byte) []byte {
	var out []byte
	end := 0
	for _, f := range fieldsOf(msg) {
		if f.num != at[0] {
			continue
		}
		payload := msg[f.payload.from:f.payload.to]
		if len(at) > 1 {
			payload = edit(payload, at[1:], change)
		} else if payload = change(payload); payload == nil {
			out = append(out, msg[end:f.start]...)
			end = f.payload.to
			continue
		}
		out = append(out, msg[end:f.start]...)
		out = protowire.AppendTag(out, f.num, f.typ)
		if f.typ == protowire.BytesType {
			out = protowire.AppendBytes(out, payload)
		} else {
			out = append(out, payload...)
		}
		end = f.payload.to
	}
	return append(out, msg[end:]...)
}

// insert returns msg with an encoded field put in where Kubernetes' marshallers,
// which write in the order of numbers, would have written it.
func insert(msg []byte, num protowire.Number, encoded []byte) []byte {
	at := len(msg)
	for _, f := range fieldsOf(msg) {
		if f.num > num {
			at = f.start
			break
		}
	}
	return slices.Concat(msg[:at], encoded, msg[at:])
}

func textField(num protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), text)
}

func messageField(num protowire.Number, fields ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), slices.Concat(fields...))
}

func numberField(num protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), n)
}
