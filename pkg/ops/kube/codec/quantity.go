package codec

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// longestExponent is how many digits the negative exponent of a quantity may have.
// The API server stores none below -9; with eight digits, resource.Quantity computes
// for a minute on ten bytes.
const longestExponent = 3

// absurdQuantity finds a field 1 that is a number with an absurd exponent, and
// nothing else: that is what a resource.Quantity is in a protocol buffer.
func absurdQuantity(body []byte) bool {
	for rest := 0; ; {
		i := bytes.IndexByte(body[rest:], '-')
		if i < 0 {
			return false
		}
		minus := rest + i
		rest = minus + 1
		if minus == 0 || body[minus-1]|0x20 != 'e' {
			continue
		}
		begin, end := minus-1, minus+1
		for begin > 0 && (digit(body[begin-1]) || body[begin-1] == '.') {
			begin--
		}
		for end < len(body) && digit(body[end]) {
			end++
		}
		if end-rest <= longestExponent {
			continue
		}
		signed := begin > 0 && (body[begin-1] == '+' || body[begin-1] == '-')
		if isField(body[:begin], end-begin) || signed && isField(body[:begin-1], end-begin+1) {
			return true
		}
	}
}

// isField reports whether a field 1 of n bytes begins behind b.
func isField(b []byte, n int) bool {
	return bytes.HasSuffix(b, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(n)))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
