package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/keyspace"
)

// keysUsageTable draws a breakdown: what the file is used for, and the groups.
func keysUsageTable(b keyspace.Breakdown, top int) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintln(w, usageLine(b))
		if b.File != nil {
			fmt.Fprintln(w)
			if err := drawParts(w, *b.File); err != nil {
				return err
			}
		}
		if b.Since != nil {
			fmt.Fprintf(w, "\nsince revision %d of %s, %s: %s\n", b.Since.Revision, render.Safe(b.Since.Source),
				b.Since.At.Local().Format(time.DateTime), growthText(&b.Since.Total))
		}
		fmt.Fprintln(w)
		rows := usageRows(b.Groups, top, 0)
		if err := breakdownColumns(b).Write(w, rows); err != nil {
			return err
		}
		if b.Capped {
			fmt.Fprintln(w, "\nThere are more groups than are kept apart: the rest is counted in those above them, or as "+string(keyspace.GroupOther)+".")
		}
		return nil
	}
}

func usageLine(b keyspace.Breakdown) string {
	kept := "everything since the first revision is kept"
	if b.Oldest > 1 {
		kept = fmt.Sprintf("history is kept from revision %d", b.Oldest)
	}
	what := count64(b.Total.Keys, "live key")
	if b.Prefix != "" {
		what += " with prefix " + nameText(b.Prefix)
	}
	bytes := sizeText(b.Total.Live)
	if !b.Exact {
		bytes += " ± " + sizeText(b.Total.LiveError)
	}
	line := fmt.Sprintf("%s at revision %d: %s, %s; ", b.Source, b.Revision, what, bytes)
	if b.Live {
		return render.Safe(line + fmt.Sprintf("%d older revisions at least; %s", b.Total.Revisions, kept))
	}
	return render.Safe(line + fmt.Sprintf("%s, %s, and %s; %s", count64(b.Total.Revisions, "older revision"), sizeText(*b.Total.History),
		count64(*b.Total.Tombstones, "tombstone"), kept))
}

// filePart is a row of what a file is used for.
type filePart struct {
	what  string
	bytes int64
	note  string
}

func drawParts(w io.Writer, p keyspace.Parts) error {
	pending := ""
	if p.Pending > 0 {
		pending = fmt.Sprintf("; a compaction to revision %d is pending, and frees part of it at the next start", p.Pending)
	}
	rows := []filePart{
		{"live", p.Live, "the newest revision of each key"},
		{"history", p.History, "older revisions: kvd compact frees them" + pending},
		{"tombstones", p.Deleted, "records of deletions: as history"},
		{"other buckets", p.OtherBuckets, bucketsText(p)},
		{"branch pages", p.Branches, "the index of the pages"},
		{"leaf overhead", p.Leaves, "headers, and room at the ends of pages"},
		{"free pages", p.Free, "kvd defrag gives them back"},
		{"meta pages", p.Meta, ""},
		{"behind the last page", p.Tail, "room made ahead, or a snapshot's hash"},
		{"sum", p.Sum(), "the size of the file, checked"},
	}
	return render.Columns[filePart]{
		{Header: "what", Value: func(r filePart) string { return r.what }},
		{Header: "bytes", Right: true, Value: func(r filePart) string { return strconv.FormatInt(r.bytes, 10) }},
		{Header: "size", Right: true, Value: func(r filePart) string { return sizeText(r.bytes) }},
		{Header: "of file", Right: true, Value: func(r filePart) string { return fmt.Sprintf("%.1f%%", 100*float64(r.bytes)/float64(p.Size)) }},
		{Header: "", Value: func(r filePart) string { return r.note }},
	}.Write(w, rows)
}

func bucketsText(p keyspace.Parts) string {
	var out []string
	for _, b := range p.Buckets {
		if b.Records > 0 {
			out = append(out, fmt.Sprintf("%s %d", b.Name, b.Records))
		}
	}
	return strings.Join(out, ", ")
}

// usageRow is a group with its place in the tree.
type usageRow struct {
	keyspace.Part
	level int
	more  int // instead of a group: how many are not listed
}

// usageRows lists the groups level by level, the first ones of each.
func usageRows(parts []keyspace.Part, top, level int) []usageRow {
	var out []usageRow
	for i, p := range parts {
		if top > 0 && i == top {
			rest := keyspace.Part{}
			for _, q := range parts[i:] {
				rest.Add(q)
			}
			return append(out, usageRow{Part: rest, level: level, more: len(parts) - i})
		}
		out = append(out, usageRow{Part: p, level: level})
		out = append(out, usageRows(p.Groups, top, level+1)...)
	}
	return out
}

func (r usageRow) name() string {
	indent := strings.Repeat("  ", r.level)
	if r.more > 0 {
		return indent + fmt.Sprintf("… %d more", r.more)
	}
	return indent + nameText(r.Name)
}

func breakdownColumns(b keyspace.Breakdown) render.Columns[usageRow] {
	c := render.Columns[usageRow]{
		{Header: string(b.By), Value: usageRow.name},
		{Header: "keys", Right: true, Value: func(r usageRow) string { return strconv.FormatInt(r.Keys, 10) }},
		{Header: "live", Right: true, Value: func(r usageRow) string { return sizeText(r.Live) }},
	}
	if !b.Exact {
		c = append(c, render.Column[usageRow]{Header: "±", Right: true, Value: func(r usageRow) string { return sizeText(r.LiveError) }})
	}
	if b.Live {
		c = append(c, render.Column[usageRow]{Header: "older revisions", Right: true, Value: func(r usageRow) string { return "≥ " + strconv.FormatInt(r.Revisions, 10) }})
	} else {
		c = append(c,
			render.Column[usageRow]{Header: "history", Right: true, Value: func(r usageRow) string { return bytesOrDash(r.History) }},
			render.Column[usageRow]{Header: "revisions", Right: true, Value: func(r usageRow) string { return strconv.FormatInt(r.Revisions, 10) }},
			render.Column[usageRow]{Header: "tombstones", Right: true, Value: func(r usageRow) string { return optionalCount(r.Tombstones) }})
	}
	c = append(c, render.Column[usageRow]{Header: "share", Right: true, Value: func(r usageRow) string { return fmt.Sprintf("%.1f%%", 100*r.Share) }})
	if b.Since != nil {
		return append(c, render.Column[usageRow]{Header: "growth", Value: func(r usageRow) string { return growthText(r.Growth) }})
	}
	return append(c,
		render.Column[usageRow]{Header: "largest key", Value: func(r usageRow) string {
			if r.Largest == nil {
				return "-"
			}
			return fmt.Sprintf("%s (%s)", belowText(r.Name, r.Largest.Key), sizeText(r.Largest.Bytes))
		}},
		render.Column[usageRow]{Header: "most revised", Value: func(r usageRow) string {
			if r.MostRevised == nil {
				return "-"
			}
			return fmt.Sprintf("%s (%d)", belowText(r.Name, r.MostRevised.Key), r.MostRevised.Revisions)
		}})
}

func growthText(g *keyspace.Growth) string {
	if g == nil {
		return "-"
	}
	text := fmt.Sprintf("%+d keys, live %s", g.Keys, signed(g.Live))
	if g.History != nil {
		text += ", history " + signed(*g.History)
	}
	switch {
	case g.New:
		text += " (new)"
	case g.Gone:
		text += " (gone)"
	}
	return text
}

func signed(n int64) string {
	if n >= 0 {
		return "+" + sizeText(n)
	}
	return sizeText(n)
}

// nameText shows a name; a group of keys without a slash in them has none. Who prints
// it makes it safe: twice would be another name.
func nameText(n keyspace.Name) string {
	if n == "" {
		return "(no slash)"
	}
	return string(n)
}

// count64 is count for large numbers.
func count64(n int64, noun string) string { return count(int(n), noun) }

func optionalCount(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}
