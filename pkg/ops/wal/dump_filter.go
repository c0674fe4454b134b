package wal

import (
	"bytes"
	"slices"
	"strings"
)

// toLast as the end of a range means "to the last key" (rpc.proto, RangeRequest).
const toLast = "\x00"

// Span is a range of numbers, both ends included; a zero is no bound.
type Span struct{ From, To uint64 }

func (s Span) has(n uint64) bool { return n >= s.From && (s.To == 0 || n <= s.To) }

// Filter says which entries are wanted. An empty field wants all; where several
// are given, an entry has to pass each.
type Filter struct {
	Index, Term Span
	Types       []string // RequestTypes, or what some of them begin with up to an underscore: "auth", "lease"
	Keys        []string // entries that concern one of these keys,
	Prefixes    []string // or a key that begins with one of these
	User        string
	MinBytes    int64 // of the record
}

// byKey reports whether keys or prefixes were given.
func (f *Filter) byKey() bool { return len(f.Keys)+len(f.Prefixes) > 0 }

// cheap is the part of the filter that needs no request decoded.
func (f *Filter) cheap(r *Record) bool {
	return f.Index.has(r.Entry.Index) && f.Term.has(r.Entry.Term) && r.Size >= f.MinBytes
}

// request is the rest of it but for the keys.
func (f *Filter) request(r *Request) bool {
	if f.User != "" && r.User != f.User && !r.logsIn(f.User) {
		return false
	}
	return len(f.Types) == 0 || slices.ContainsFunc(f.Types, r.Type.Named)
}

// logsIn reports a user's asking for a token, in whose name nothing is asked yet.
func (r *Request) logsIn(user string) bool { return r.Type == "authenticate" && r.Auth.User == user }

// Named reports whether a name is that of the type, or of its family.
func (t RequestType) Named(name string) bool {
	return string(t) == name || strings.HasPrefix(string(t), name+"_")
}

// key reports whether a key is one of those wanted.
func (f *Filter) key(key []byte) bool {
	for _, k := range f.Keys {
		if string(key) == k {
			return true
		}
	}
	for _, p := range f.Prefixes {
		if strings.HasPrefix(string(key), p) {
			return true
		}
	}
	return false
}

// op reports whether a request concerns a key that is wanted: its own key, one
// in its range, or those of either branch of a transaction.
func (f *Filter) op(o *Op) bool {
	switch {
	case o.Txn != nil:
		return f.txn(o.Txn)
	case len(o.End) == 0 || o.Op == PutType:
		return f.key(o.Key)
	}
	for _, k := range f.Keys {
		if o.covers(k) {
			return true
		}
	}
	for _, p := range f.Prefixes {
		// A range touches a prefix if it begins within it, or covers its first key.
		if strings.HasPrefix(string(o.Key), p) && o.nonEmpty() || o.covers(p) {
			return true
		}
	}
	return false
}

func (f *Filter) txn(t *Txn) bool {
	concerns := func(ops []Op) bool {
		for i := range ops {
			if f.op(&ops[i]) {
				return true
			}
		}
		return false
	}
	return concerns(t.Success) || concerns(t.Failure)
}

// covers reports whether a key is in the range of o.
func (o *Op) covers(key string) bool {
	switch {
	case len(o.End) == 0:
		return string(o.Key) == key
	case string(o.End) == toLast:
		return key >= string(o.Key)
	}
	return key >= string(o.Key) && key < string(o.End)
}

func (o *Op) nonEmpty() bool { return string(o.End) == toLast || string(o.Key) < string(o.End) }

// IsPrefix reports whether a range is that of all keys with a prefix, which key
// is: its end is the key with its last byte counted up.
func IsPrefix(key, end []byte) bool {
	n := len(end)
	if n == 0 || n > len(key) || end[n-1] == 0 || !bytes.Equal(key[:n-1], end[:n-1]) || key[n-1] != end[n-1]-1 {
		return false
	}
	for _, b := range key[n:] {
		if b != 0xff { // those carry
			return false
		}
	}
	return true
}
