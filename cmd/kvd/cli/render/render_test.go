package render_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"kvd/cmd/kvd/cli/render"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"/registry/pods/default/a": "/registry/pods/default/a",
		"grün €":                   "grün €",
		"a\x00b":                   `a\x00b`,
		"\x1b[31mred":              `\x1b[31mred`,
		"line\nbreak":              `line\nbreak`,
		"\xff\xfe":                 `\xff\xfe`,
		"rtl\u202eevil":            `rtl\u202eevil`,
		`back\slash`:               `back\\slash`,
		`\xff`:                     `\\xff`,
	} {
		if got := string(render.AppendSafe([]byte(">"), []byte(in))); got != ">"+want {
			t.Errorf("AppendSafe(%q) = %q, want %q", in, got, ">"+want)
		}
		if got := render.Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
}

// What reaches a terminal is printable, and no two keys look the same.
func TestSafeIsPrintableAndLossless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "a"))
		b := string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "b"))
		sa, sb := render.Safe(a), render.Safe(b)
		if !utf8.ValidString(sa) || strings.ContainsFunc(sa, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("Safe(%q) = %q is not printable", a, sa)
		}
		if (a == b) != (sa == sb) {
			t.Fatalf("%q and %q come out as %q and %q", a, b, sa, sb)
		}
	})
}

func TestTableEscapesCells(t *testing.T) {
	var out bytes.Buffer
	cols := render.Columns[string]{{Header: "key", Value: func(s string) string { return s }}, {Header: "n", Right: true, Value: func(string) string { return "1" }}}
	if err := cols.Write(&out, []string{"a\x1b[2J", "longer"}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(out.String(), 0x1b) {
		t.Errorf("an escape character got through: %q", out.String())
	}
	if lines := strings.Count(out.String(), "\n"); lines != 3 {
		t.Errorf("%d lines for a header and two rows:\n%s", lines, out.String())
	}
}

func TestYAMLHasTheNamesOfJSON(t *testing.T) {
	var out bytes.Buffer
	v := struct {
		Size int64 `json:"db_size_bytes"`
	}{16}
	if err := render.WriteYAML(&out, v); err != nil {
		t.Fatal(err)
	}
	if out.String() != "db_size_bytes: 16\n" {
		t.Errorf("got %q", out.String())
	}
}
