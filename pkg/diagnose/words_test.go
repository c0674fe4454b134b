package diagnose

import (
	"strconv"
	"testing"
)

// A key in a command is read again as the one it was: each character or escape by
// itself, as the command line does it.
func TestPrintableKeysAreReadAgain(t *testing.T) {
	for _, key := range []string{"/registry/pods/a", `"`, `a"`, `\"`, `"a" b'c`, `\`, "\xff\x00\n", "é\u200b"} {
		var got []byte
		for rest := printable([]byte(key)); rest != ""; {
			c, multibyte, tail, err := strconv.UnquoteChar(rest, 0)
			if err != nil {
				t.Fatalf("%q is told as %s, of which %s is no key: %v", key, printable([]byte(key)), rest, err)
			}
			if rest = tail; multibyte {
				got = append(got, string(c)...)
			} else {
				got = append(got, byte(c))
			}
		}
		if string(got) != key {
			t.Errorf("%q is read as %q", key, got)
		}
	}
}
