// Package render turns results into what a person or a machine reads. JSON is
// the truth, YAML is made from its tags, and a table is a view of it.
package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Format is a format of results. It is a pflag.Value.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// String returns the format's name.
func (f *Format) String() string { return string(*f) }

// Type names the kind of flag value.
func (f *Format) Type() string { return "format" }

// Set accepts one of the formats' names.
func (f *Format) Set(s string) error {
	switch v := Format(s); v {
	case Table, JSON, YAML:
		*f = v
		return nil
	}
	return fmt.Errorf("%q is not a format: want table, json or yaml", s)
}

// WriteJSON writes v as indented JSON with a newline.
func WriteJSON(w io.Writer, v any) error {
	enc := NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Safe returns s with everything a terminal might act upon escaped as in a Go
// string literal: control characters, bytes that are not UTF-8, and invisible
// characters that could reorder text. Newlines are escaped too. A string
// without any of these, and without a backslash, comes back unchanged, and
// different strings never come out alike.
func Safe(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\\':
			b.WriteString(`\\`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}

// AppendSafe appends s as Safe has it, for those who print so much that a string for
// each would show.
func AppendSafe[S string | []byte](b []byte, s S) []byte {
	if asciiEnd(s) == len(s) {
		return append(b, s...)
	}
	return append(b, Safe(string(s))...)
}

// asciiEnd is how many bytes of s are printable ASCII without a backslash, up to the
// first that is not.
func asciiEnd[S string | []byte](s S) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return i
		}
	}
	return len(s)
}

func clean(s string) bool {
	for i := asciiEnd(s); i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if (r == utf8.RuneError && n <= 1) || r == '\\' || !unicode.IsPrint(r) {
			return false
		}
		i += n
	}
	return true
}
