package render

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// NewEncoder returns an encoder for a stream of JSON, a line for each value, of which
// nothing reaches a terminal that it would act upon: what Safe escapes in tables is
// escaped here as JSON has it, so that whoever parses it gets the same strings.
func NewEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(printable{w})
	enc.SetEscapeHTML(false)
	return enc
}

// printable escapes what is not printable. Only strings of JSON hold anything that is
// not ASCII, and the encoder hands over whole values.
type printable struct{ w io.Writer }

// Write writes b, and reports its length where all of it was written.
func (p printable) Write(b []byte) (int, error) {
	var out []byte // only where something is escaped
	kept := 0
	for i := 0; i < len(b); {
		r, n := rune(b[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(b[i:])
		}
		if r >= 0x7f && !unicode.IsPrint(r) {
			out = append(append(out, b[kept:i]...), escaped(r)...)
			kept = i + n
		}
		i += n
	}
	rest := b
	if kept > 0 {
		rest = append(out, b[kept:]...)
	}
	if _, err := p.w.Write(rest); err != nil {
		return 0, err
	}
	return len(b), nil
}

func escaped(r rune) string {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
