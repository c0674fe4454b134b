package cli

import (
	"fmt"
	"io"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/wal"
)

// walEnd says how far a log goes. That of a member which began with a snapshot has no
// entry at first, and stands at the snapshot's.
func walEnd(l wal.Listing) string {
	if l.Entries > 0 {
		return fmt.Sprintf("last entry %d of term %d", l.Last.Index, l.Last.Term)
	}
	var newest wal.Mark
	for _, s := range l.Segments {
		for _, m := range s.Snaps {
			newest = m
		}
	}
	if newest.Snapshot.Index == 0 {
		return "no entry"
	}
	return fmt.Sprintf("no entry behind the snapshot at %d of term %d", newest.Snapshot.Index, newest.Term)
}

func walListTable(l wal.Listing) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintf(w, "%s: member %s of cluster %s, %s", render.Safe(l.Dir), l.Member, l.Cluster, count(len(l.Segments), "segment"))
		if l.Live != "" {
			fmt.Fprintf(w, ", written to by %s", render.Safe(l.Live))
		}
		fmt.Fprintf(w, "\n%s, commit %d, %s of %s used\n", walEnd(l), l.State.Commit, sizeText(l.Used), sizeText(l.Bytes))
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

// walVerifyTable draws a verdict, the numbers it rests on, damage and findings.
func walVerifyTable(v *wal.Verification) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintf(w, "%s: %s\n", render.Safe(orDefault(v.Dir, "no log")), render.Safe(v.Verdict.Why))
		if v.Verdict.Message != "" {
			fmt.Fprintf(w, "it says: %s\n", render.Safe(v.Verdict.Message))
		}
		if l := v.Verdict.Lost; l != nil {
			fmt.Fprintf(w, "lost to a start: %s (%d)\n", l, l.Count)
		}
		fmt.Fprintf(w, "verdict: %s\n\n", v.Verdict.Outcome.Words())
		rows := walNumbers(v)
		if err := (render.Columns[snapshotRow]{
			{Header: "what", Value: func(r snapshotRow) string { return r.name }},
			{Header: "value", Value: func(r snapshotRow) string { return r.value }},
		}).Write(w, rows); err != nil {
			return err
		}
		if len(v.Damages) > 0 {
			fmt.Fprintln(w)
			if err := walDamageColumns().Write(w, v.Damages); err != nil {
				return err
			}
			if more := v.Damaged - int64(len(v.Damages)); more > 0 {
				fmt.Fprintf(w, "and %d more\n", more)
			}
		}
		for _, f := range v.Findings {
			fmt.Fprintf(w, "\n%s: %s: %s\n", f.Severity, f.Cause, render.Safe(f.Says))
			if f.Hint != "" {
				fmt.Fprintf(w, "  hint: %s\n", render.Safe(f.Hint))
			}
		}
		return nil
	}
}

func walNumbers(v *wal.Verification) []snapshotRow {
	rows := []snapshotRow{
		{"last entry in the log", fmt.Sprintf("%d, term %d", v.Numbers.Last.Index, v.Numbers.Last.Term)},
		{"commit index in the log", fmt.Sprint(v.Numbers.Commit)},
		{"newest snapshot record", fmt.Sprintf("%d, term %d", v.Numbers.Newest.Index, v.Numbers.Newest.Term)},
		{"consistent index of the database", "-"},
		{"member, cluster", fmt.Sprintf("%s, %s", v.Member, v.Cluster)},
		{"read", fmt.Sprintf("%s, %d records, %d entries, %s", count(v.Segments, "segment"), v.Records, v.Entries, sizeText(v.Bytes))},
	}
	if v.Segments == 0 {
		rows[0].value, rows[1].value, rows[2].value, rows[4].value = "-", "-", "-", "-"
	}
	if c := v.Numbers.Consistent; c != nil {
		rows[3].value = fmt.Sprintf("%d, term %d", *c, v.Database.Term)
	}
	if db := v.Database; db != nil && db.Unread == "" {
		storage := orDefault(db.StorageVersion, "3.5 or before")
		if db.ConsistentIndex == 0 && len(db.Members) == 0 { // nothing was ever written to it
			storage = orDash(db.StorageVersion)
		}
		rows = append(rows, snapshotRow{"versions of storage, cluster", storage + ", " + orDash(db.ClusterVersion)},
			snapshotRow{"read of the database", fmt.Sprintf("a few pages; `kvd snapshot verify %s` reads all, as a start does", db.Path)})
	}
	if v.Live != "" {
		rows = append(rows, snapshotRow{"written to by", v.Live})
	}
	return rows
}

func walDamageColumns() render.Columns[wal.Break] {
	type b = wal.Break
	entries := func(s *wal.EntrySpan) string {
		if s == nil {
			return "-"
		}
		if s.Count == 1 {
			return fmt.Sprint(s.From)
		}
		return fmt.Sprintf("%d–%d", s.From, s.To)
	}
	return render.Columns[b]{
		{Header: "damage", Value: func(x b) string { return string(x.Class) }},
		{Header: "file", Value: func(x b) string { return x.File }},
		{Header: "offset", Right: true, Value: func(x b) string { return fmt.Sprint(x.Offset) }},
		{Header: "record", Right: true, Value: func(x b) string { return fmt.Sprint(x.Record) }},
		{Header: "entry", Right: true, Value: func(x b) string {
			if x.Entry == nil {
				return "-"
			}
			return fmt.Sprintf("%d, term %d", x.Entry.Index, x.Entry.Term)
		}},
		{Header: "crc stored, computed", Value: func(x b) string {
			if x.StoredCRC == nil {
				return "-"
			}
			return x.StoredCRC.String() + ", " + x.ComputedCRC.String()
		}},
		{Header: "readable again at", Right: true, Value: func(x b) string {
			if x.Resumed == nil {
				return "-"
			}
			if x.Resumed.File != x.File {
				return x.Resumed.String()
			}
			return fmt.Sprint(x.Resumed.Offset)
		}},
		{Header: "unreadable", Right: true, Value: func(x b) string { return entries(x.Unreadable) }},
		{Header: "lost if cut here", Right: true, Value: func(x b) string { return entries(x.Lost) }},
		{Header: "why", Value: func(x b) string { return x.Why }},
	}
}
