package cli

import (
	"fmt"
	"io"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/wal"
)

func walListTable(l wal.Listing) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintf(w, "%s: member %s of cluster %s, %s", render.Safe(l.Dir), l.Member, l.Cluster, count(len(l.Segments), "segment"))
		if l.Live != "" {
			fmt.Fprintf(w, ", written to by %s", render.Safe(l.Live))
		}
		fmt.Fprintf(w, "\nlast entry %d of term %d, commit %d, %s of %s used\n", l.Last.Index, l.Last.Term, l.State.Commit, sizeText(l.Used), sizeText(l.Bytes))
		if err := walSegmentColumns().Write(w, l.Segments); err != nil {
			return err
		}
		for i := range l.Damages {
			d := &l.Damages[i]
			fmt.Fprintf(w, "\n%s at %s: %s\n", d.Class, render.Safe(d.Position.String()), render.Safe(d.Why))
		}
		if l.Damaged > int64(len(l.Damages)) {
			fmt.Fprintf(w, "\nand %d more\n", l.Damaged-int64(len(l.Damages)))
		}
		if len(l.Files) == 0 {
			return nil
		}
		fmt.Fprintln(w)
		type f = wal.OtherFile
		return render.Columns[f]{
			{Header: "other file", Value: func(x f) string { return x.Name }},
			{Header: "size", Right: true, Value: func(x f) string { return sizeText(x.Bytes) }},
			{Header: "what it is", Value: func(x f) string { return x.Means }},
		}.Write(w, l.Files)
	}
}

func walSegmentColumns() render.Columns[wal.SegmentListing] {
	type s = wal.SegmentListing
	number := func(n func(s) int64) func(s) string { return func(x s) string { return fmt.Sprint(n(x)) } }
	return render.Columns[s]{
		{Header: "segment", Value: func(x s) string { return x.Name }},
		{Header: "records", Right: true, Value: number(func(x s) int64 { return x.Records })},
		{Header: "entries", Right: true, Value: number(func(x s) int64 { return x.Entries })},
		{Header: "replaced", Right: true, Value: number(func(x s) int64 { return x.Replaced })},
		{Header: "index", Right: true, Value: func(x s) string { return walRange(x, x.First.Index, x.Last.Index) }},
		{Header: "term", Right: true, Value: func(x s) string { return walRange(x, x.First.Term, x.Last.Term) }},
		{Header: "used", Right: true, Value: func(x s) string { return sizeText(x.Used) }},
		{Header: "size", Right: true, Value: func(x s) string { return sizeText(x.Bytes) }},
		{Header: "crc", Value: func(x s) string {
			if !x.Chained {
				return x.Begins.String() + " (does not fit) … " + x.Ends.String()
			}
			return x.Begins.String() + " … " + x.Ends.String()
		}},
		{Header: "snapshots at", Value: func(x s) string {
			var at []string
			for _, m := range x.Snaps {
				at = append(at, fmt.Sprint(m.Index))
			}
			return orDash(strings.Join(at, ","))
		}},
	}
}

func walRange(s wal.SegmentListing, from, to uint64) string {
	switch {
	case s.Entries == 0:
		return "-"
	case from == to:
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d–%d", from, to)
}
