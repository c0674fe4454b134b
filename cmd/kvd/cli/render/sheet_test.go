package render_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"kvd/cmd/kvd/cli/render"
)

// tables draws some that differ in all that a table keeps: columns, sides, widths.
func tables(w io.Writer) error {
	same := func(s string) string { return s }
	return errors.Join(
		render.Columns[string]{{Header: "key", Value: same}, {Header: "bytes", Right: true, Value: same}, {Header: "why", Value: same, Wrap: 12}}.
			Write(w, []string{"a", "one that is longer than twelve characters"}),
		render.Columns[int]{{Header: "n", Right: true, Value: func(n int) string { return fmt.Sprint(n) }}}.Write(w, []int{1, 1_000_000}),
		render.Columns[string]{{Header: "bytes", Right: true, Value: same}, {Header: "key", Value: same}}.Write(w, nil),
		render.Columns[string]{{Header: "key", Value: same}, {Header: "note, not broken", Value: same}}.Write(w, []string{"b", "grün € and longer than twelve"}))
}

// What is drawn on one sheet is what is drawn one by one.
func TestSheet(t *testing.T) {
	var alone, together bytes.Buffer
	sheet := render.NewSheet(&together)
	for range 3 {
		if err := errors.Join(tables(&alone), tables(sheet)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&alone, "between")
		fmt.Fprintln(sheet, "between")
	}
	if alone.String() != together.String() || strings.Count(alone.String(), "NOTE, NOT BROKEN") != 3 {
		t.Errorf("on one sheet:\n%s\none by one:\n%s", &together, &alone)
	}
}

func BenchmarkTables(b *testing.B) {
	for name, on := range map[string]func() io.Writer{
		"OneSheet": func() io.Writer { return render.NewSheet(io.Discard) },
		"OneByOne": func() io.Writer { return io.Discard },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := tables(on()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
