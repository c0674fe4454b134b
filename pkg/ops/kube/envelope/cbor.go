package envelope

import "encoding/binary"

// The major types of CBOR (RFC 8949, section 3.1), and how deep items may be in each other,
// as in the API server's decoder (k8s.io/apimachinery, serializer/cbor/internal/modes).
const (
	cborBytes, cborText, cborArray, cborMap, cborTag = 2, 3, 4, 5, 6

	cborDepth = 64
)

// readCBOR finds apiVersion and kind in a map. They stand where the order of the encoded
// names puts them, apiVersion behind all shorter names, so that what comes before is
// skipped. The API server writes strings as bytes.
func (h *Head) readCBOR(b []byte) {
	major, pairs, b, ok := cborHead(b)
	if !ok || major != cborMap {
		return
	}
	for ; pairs > 0; pairs-- {
		var name, value []byte
		var text bool
		if name, b, ok = cborString(b); !ok {
			return
		}
		if value, _, text = cborString(b); text {
			switch string(name) {
			case "apiVersion":
				h.APIVersion = string(value)
			case "kind":
				h.Kind = string(value)
			}
		}
		if b, ok = cborSkip(b, cborDepth); !ok {
			return
		}
	}
}

// cborHead takes an item's type and its number off: a length, a count, or a value.
// Lengths that are not told beforehand the API server neither writes nor takes.
func cborHead(b []byte) (major byte, n uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, 0, nil, false
	}
	major, info := b[0]>>5, b[0]&0x1f
	b = b[1:]
	switch {
	case info < 24:
		return major, uint64(info), b, true
	case info > 27 || len(b) < 1<<(info-24):
		return 0, 0, nil, false
	}
	var wide [8]byte
	size := 1 << (info - 24)
	copy(wide[8-size:], b)
	return major, binary.BigEndian.Uint64(wide[:]), b[size:], true
}

func cborString(b []byte) (text, rest []byte, ok bool) {
	major, n, b, ok := cborHead(b)
	if !ok || major != cborBytes && major != cborText || n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// cborSkip takes one item off, with all that is in it.
func cborSkip(b []byte, depth int) (rest []byte, ok bool) {
	major, n, b, ok := cborHead(b)
	if !ok || depth == 0 {
		return nil, false
	}
	switch major {
	case cborBytes, cborText:
		if n > uint64(len(b)) {
			return nil, false
		}
		return b[n:], true
	case cborArray, cborMap, cborTag:
		items := n
		switch {
		case major == cborTag:
			items = 1
		case n > uint64(len(b)): // each takes a byte at least
			return nil, false
		case major == cborMap:
			items = 2 * n
		}
		for ; items > 0; items-- {
			if b, ok = cborSkip(b, depth-1); !ok {
				return nil, false
			}
		}
	}
	return b, true // a number, or a simple value
}
