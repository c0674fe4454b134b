package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/wal"
)

func drawWALStats(w io.Writer, s *wal.Stats) error {
	fmt.Fprintf(w, "%s: %d entries, %s, index %d to %d, commit %d", render.Safe(s.Dir), s.Entries, sizeText(s.Bytes), s.First.Index, s.Last.Index, s.Commit)
	if s.Overwritten > 0 {
		fmt.Fprintf(w, ", %d of them replaced by a later leader", s.Overwritten)
	}
	fmt.Fprintln(w)
	err := errors.Join(
		drawAmounts(w, "type", s.Types, func(x wal.TypeAmount) (string, wal.Amount) { return string(x.Type), x.Amount }),
		drawAmounts(w, "prefix", s.Prefixes, func(x wal.PrefixAmount) (string, wal.Amount) {
			return orDefault(string(x.Prefix), "(no prefix)"), x.Amount
		}),
		drawAmounts(w, "namespace", s.Namespaces, func(x wal.NameAmount) (string, wal.Amount) { return x.Name, x.Amount }),
		drawAmounts(w, "key", s.Keys, func(x wal.KeyAmount) (string, wal.Amount) { return string(x.Key), x.Amount }),
		drawAmounts(w, "lease", s.Leases, func(x wal.LeaseAmount) (string, wal.Amount) { return x.Lease.String(), x.Amount }),
		drawAmounts(w, "user", s.Users, func(x wal.NameAmount) (string, wal.Amount) { return x.Name, x.Amount }),
		drawBiggest(w, s.Biggest),
		drawAmounts(w, "segment", s.Segments, func(x wal.SegmentAmount) (string, wal.Amount) { return x.Name, x.Amount }))
	for _, m := range []struct {
		name string
		wal.Amount
	}{{"key", s.KeysUncounted}, {"lease", s.LeasesUncounted}} {
		if m.Count > 0 {
			fmt.Fprintf(w, "\nmore %ss than are kept: one may have had up to %s and %s more than is shown\n", m.name, count(int(m.Count), "write"), sizeText(m.Bytes))
		}
	}
	return err
}

// drawAmounts draws a list under the name of what it counts; an empty one is left out.
func drawAmounts[T any](w io.Writer, name string, rows []T, of func(T) (string, wal.Amount)) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	amount := func(x T) wal.Amount { _, a := of(x); return a }
	return render.Columns[T]{
		{Header: name, Value: func(x T) string { s, _ := of(x); return s }},
		{Header: "count", Right: true, Value: func(x T) string { return strconv.FormatInt(amount(x).Count, 10) }},
		{Header: "bytes", Right: true, Value: func(x T) string { return sizeText(amount(x).Bytes) }},
		{Header: "share", Right: true, Value: func(x T) string { return fmt.Sprintf("%.1f%%", 100*amount(x).Share) }},
	}.Write(w, rows)
}

func drawBiggest(w io.Writer, rows []wal.BigEntry) error {
	if len(rows) == 0 {
		return nil
	}
	type b = wal.BigEntry
	fmt.Fprintln(w, "\nthe largest entries")
	return render.Columns[b]{
		{Header: "index", Right: true, Value: func(x b) string { return strconv.FormatUint(x.Index, 10) }},
		{Header: "size", Right: true, Value: func(x b) string { return sizeText(x.Bytes) }},
		{Header: "type", Value: func(x b) string { return string(x.Type) }},
		{Header: "writes", Right: true, Value: func(x b) string { return strconv.Itoa(x.Writes) }},
		{Header: "first key", Value: func(x b) string {
			if x.KeyBytes > 0 {
				return fmt.Sprintf("%s… (%d bytes)", x.Key, x.KeyBytes)
			}
			return orDash(string(x.Key))
		}},
		{Header: "file", Value: func(x b) string { return x.File }},
		{Header: "offset", Right: true, Value: func(x b) string { return strconv.FormatInt(x.Offset, 10) }},
	}.Write(w, rows)
}
