package render

import (
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
)

// Column is one column of a table of Ts.
type Column[T any] struct {
	Header string
	Value  func(T) string
	Right  bool // numbers stand to the right
	Wrap   int  // break longer cells into lines of this many characters; 0: never
}

// Columns is a table's shape.
type Columns[T any] []Column[T]

// Write draws the rows. Every cell is made safe for a terminal.
func (c Columns[T]) Write(w io.Writer, rows []T) error {
	header := make([]string, len(c))
	align := make([]tw.Align, len(c))
	wrap := tw.NewMapper[int, int]()
	for i, col := range c {
		if col.Wrap > 0 {
			wrap.Set(i, col.Wrap)
		}
		header[i], align[i] = strings.ToUpper(col.Header), tw.AlignLeft
		if col.Right {
			align[i] = tw.AlignRight
		}
	}
	sheet := sheetOn(w)
	t := sheet.table.Options(tablewriter.WithConfig(tablewriter.Config{
		Header: tw.CellConfig{
			Alignment:  tw.CellAlignment{PerColumn: align},
			Formatting: tw.CellFormatting{AutoFormat: tw.Off},
			Padding:    tw.CellPadding{Global: gap()},
		},
		Row: tw.CellConfig{
			Alignment:    tw.CellAlignment{PerColumn: align},
			Formatting:   tw.CellFormatting{AutoWrap: tw.WrapNormal},
			ColMaxWidths: tw.CellWidth{PerColumn: wrap},
			Padding:      tw.CellPadding{Global: gap()},
		},
	}))
	t.Header(header)
	for _, r := range rows {
		cells := make([]string, len(c))
		for i, col := range c {
			cells[i] = Safe(col.Value(r))
		}
		if err := t.Append(cells); err != nil {
			return err
		}
	}
	if err := t.Render(); err != nil {
		return err
	}
	return sheet.flush()
}

func gap() tw.Padding { return tw.Padding{Left: "", Right: "  ", Overwrite: true} }

// plain draws no lines: tables are piped into grep and pasted into tickets.
func plain() tw.Rendition {
	return tw.Rendition{
		Borders: tw.BorderNone,
		Settings: tw.Settings{
			Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off, ShowHeader: tw.Off},
			Lines:      tw.Lines{ShowHeaderLine: tw.Off, ShowTop: tw.Off, ShowBottom: tw.Off, ShowFooterLine: tw.Off},
		},
	}
}
