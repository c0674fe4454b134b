package render_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

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

// Whatever a terminal could act upon is escaped, and read back as it was.
func TestYAMLIsSafe(t *testing.T) {
	v := map[string]any{
		"plain": "as it is", "yes": "no", "empty": "", "number": 8589934592, "none": nil, "list": []any{"a", map[string]any{"b\u200b": true}},
		"reordered": "v\u202eal", "zero width": "a\u200bb", "tag": "a\U000e0041b", "lines": "one\u2066\ntwo: \"three\"\n\n  four\n", "soft": "a\u00adb",
		"controls": "\x1b[31m\x7f\u0085\u2028", "long": strings.Repeat("word \u202e", 100),
	}
	var out bytes.Buffer
	if err := render.WriteYAML(&out, v); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%U is in it:\n%s", r, out.String())
			break
		}
	}
	var back map[string]any
	if err := yaml.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(v)
	if got, _ := json.Marshal(back); string(got) != string(want) {
		t.Errorf("read back:\n%s\nwant\n%s", got, want)
	}
}

// So it is of any text.
func TestYAMLOfAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.OneOf(rapid.Rune(), rapid.RuneFrom([]rune{0x7f, 0x80, 0x85, 0xa0, 0xad, 0x200b, 0x2028, 0x202e, 0xe000, 0xfeff, 0xfffe, 0xffff, 0xe0041, 0x10ffff}), rapid.RuneFrom([]rune(" \n\t:-'\"\\#0a")))
		v := map[string]string{"k": rapid.StringOf(r).Draw(t, "value"), "l" + rapid.StringOf(r).Draw(t, "key"): "x"}
		var out bytes.Buffer
		if err := render.WriteYAML(&out, v); err != nil {
			t.Fatal(err)
		}
		for _, c := range out.String() {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Fatalf("%U is in %q", c, out.String())
			}
		}
		back := map[string]string{}
		if err := yaml.Unmarshal(out.Bytes(), &back); err != nil || !maps.Equal(back, v) {
			t.Fatalf("%v; read back %q, want %q of %q", err, back, v, out.String())
		}
	})
}
