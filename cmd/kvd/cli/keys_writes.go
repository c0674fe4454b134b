package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/keyspace"
)

// watchWrites is kvd keys usage --watch. What was counted is printed also where it
// was ended early.
func watchWrites(ctx context.Context, app *App, s source, o keysUsageOptions) error {
	live, ok := s.Source.(*keyspace.LiveSource)
	if !ok {
		return fault.New(fault.Internal, "a file cannot be watched")
	}
	w, err := keyspace.WatchWrites(ctx, live, o.BreakdownOptions, o.watch)
	if w.Seconds == 0 {
		return err
	}
	return errors.Join(err, app.Print(w, writesTable(w, o.top)))
}

// writesTable draws what was written.
func writesTable(x keyspace.Writes, top int) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintf(w, "%s, %.1f s, revisions %d to %d: %s, %s, %s; %.1f changes/s, %s/s\n", render.Safe(x.Source), x.Seconds, x.From, x.To,
			count64(x.Total.Puts, "put"), count64(x.Total.Deletes, "deletion"), sizeText(x.Total.Bytes), x.Total.Changes, sizeText(int64(x.Total.ByteRate)))
		if others := x.Entries - (x.To - x.From); others > 0 {
			fmt.Fprintf(w, "%d entries of raft's log were applied, and %d revisions came of them: leases, refused transactions and the like leave nothing in the history (kvd wal stats)\n",
				x.Entries, x.To-x.From)
		}
		fmt.Fprintln(w)
		return writesColumns(x).Write(w, writesRows(x.Groups, top, 0))
	}
}

// writesRow is a group with its place in the tree.
type writesRow struct {
	keyspace.WriteGroup
	level, more int
}

func writesRows(groups []keyspace.WriteGroup, top, level int) []writesRow {
	var out []writesRow
	for i, g := range groups {
		if top > 0 && i == top {
			return append(out, writesRow{level: level, more: len(groups) - i})
		}
		out = append(out, writesRow{WriteGroup: g, level: level})
		out = append(out, writesRows(g.Groups, top, level+1)...)
	}
	return out
}

func writesColumns(x keyspace.Writes) render.Columns[writesRow] {
	number := func(f func(writesRow) string) func(writesRow) string {
		return func(r writesRow) string {
			if r.more > 0 {
				return ""
			}
			return f(r)
		}
	}
	return render.Columns[writesRow]{
		{Header: string(x.By), Value: func(r writesRow) string {
			if r.more > 0 {
				return strings.Repeat("  ", r.level) + fmt.Sprintf("… %d more", r.more)
			}
			return strings.Repeat("  ", r.level) + nameText(r.Name)
		}},
		{Header: "changes/s", Right: true, Value: number(func(r writesRow) string { return fmt.Sprintf("%.1f", r.Changes) })},
		{Header: "bytes/s", Right: true, Value: number(func(r writesRow) string { return sizeText(int64(r.ByteRate)) })},
		{Header: "puts", Right: true, Value: number(func(r writesRow) string { return strconv.FormatInt(r.Puts, 10) })},
		{Header: "deletions", Right: true, Value: number(func(r writesRow) string { return strconv.FormatInt(r.Deletes, 10) })},
		{Header: "share", Right: true, Value: number(func(r writesRow) string { return fmt.Sprintf("%.1f%%", 100*r.Share) })},
		{Header: "most revised", Value: number(func(r writesRow) string {
			if r.MostRevised == nil {
				return "-"
			}
			return fmt.Sprintf("%s (%d)", belowText(r.Name, r.MostRevised.Key), r.MostRevised.Revisions)
		})},
	}
}

// belowText is a key without what the name of its group says already.
func belowText(group, key keyspace.Name) string {
	if rest, ok := strings.CutPrefix(string(key), string(group)); ok && rest != "" && strings.HasSuffix(string(group), "/") {
		return "…/" + nameText(keyspace.Name(rest))
	}
	return nameText(key)
}
