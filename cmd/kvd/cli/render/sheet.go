package render

import (
	"bytes"
	"io"
	"reflect"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
)

// Sheet is what several tables are drawn on: one tablewriter draws them all, since each
// has a cache of half a megabyte. Whatever else is written to it stands between them.
// It is not for concurrent use.
type Sheet struct {
	io.Writer
	table *tablewriter.Table
	drawn bytes.Buffer
}

// NewSheet returns one on w.
func NewSheet(w io.Writer) *Sheet { return &Sheet{Writer: w} }

// sheetOn returns w, if it is one, or a new one on w, ready for the next table.
func sheetOn(w io.Writer) *Sheet {
	s, ok := w.(*Sheet)
	if !ok {
		s = NewSheet(w)
	}
	s.drawn.Reset()
	if s.table == nil {
		s.table = tablewriter.NewTable(&s.drawn,
			tablewriter.WithRenderer(renderer.NewBlueprint(plain())),
			tablewriter.WithStringerCacheCustom(noCache{}))
	} else {
		s.table.Reset()
	}
	return s
}

// flush writes the table that was drawn. tablewriter pads the last column too, which is
// noise in a ticket.
func (s *Sheet) flush() error {
	for line := range strings.Lines(s.drawn.String()) {
		if _, err := io.WriteString(s.Writer, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// noCache is what tablewriter keeps ways to make strings of other types in. All cells
// are strings, and its own cache is made anew for each table.
type noCache struct{}

func (noCache) Add(reflect.Type, reflect.Value) bool            { return false }
func (noCache) Get(reflect.Type) (value reflect.Value, ok bool) { return reflect.Value{}, false }
func (noCache) Purge()                                          {}
