package keyspace

import (
	"strings"

	"kvd/pkg/ops/kube/keys"
)

// allEnd as the end of a range means "to the last key" (rpc.proto, RangeRequest).
const allEnd = "\x00"

// prefixEnd returns the end of the range that holds exactly the keys with a
// prefix: the prefix with its last byte that can be counted up counted up.
func prefixEnd(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return allEnd
}

// rangeOf returns the range of the keys with a prefix; an empty prefix is the
// whole key space, which begins at the key of one zero byte.
func rangeOf(prefix string) (from, end string) {
	if prefix == "" {
		return "\x00", allEnd
	}
	return prefix, prefixEnd(prefix)
}

// smaller returns the smaller of two range ends.
func smaller(a, b string) string {
	switch {
	case a == allEnd:
		return b
	case b == allEnd || a < b:
		return a
	}
	return b
}

// groupPrefix names the group a key is counted in: all objects of one resource
// for Kubernetes' keys, and for any other the first depth segments, each with
// its slash. A key with fewer belongs to those it has; one without a slash to
// the group of the empty prefix.
func groupPrefix(l keys.Layout, key string, depth int) string {
	if p, ok := l.ResourcePrefix(key); ok {
		return p
	}
	end := 0
	if strings.HasPrefix(key, "/") {
		end = 1 // a slash in front opens the first segment, it does not end one
	}
	for range depth {
		i := strings.IndexByte(key[end:], '/')
		if i < 0 {
			break
		}
		end += i + 1
	}
	if end == 1 && key[0] == '/' {
		return "/"
	}
	return key[:end]
}
