package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops"
	"kvd/pkg/ops/keyspace"
)

// quotaTable draws a report: the members, what there is to say, and what is
// stored.
func quotaTable(r ops.QuotaReport, o quotaOptions) func(io.Writer) error {
	return func(w io.Writer) error {
		fmt.Fprintln(w, quotaLine(r))
		if err := quotaMemberColumns().Write(w, r.Members); err != nil {
			return err
		}
		for _, m := range r.Members {
			if m.Error != nil {
				fmt.Fprintf(w, "\n%s: %s\n", render.Safe(m.Name), render.Safe(m.Error.Message))
				if m.Error.Hint != "" {
					fmt.Fprintf(w, "  hint: %s\n", render.Safe(m.Error.Hint))
				}
			}
		}
		for _, f := range r.Findings {
			fmt.Fprintf(w, "\n%s: %s\n", f.Cause, render.Safe(f.Message))
			if f.Hint != "" {
				fmt.Fprintf(w, "  hint: %s\n", render.Safe(f.Hint))
			}
		}
		if r.Content == nil {
			return nil
		}
		if r.File != nil {
			if err := drawFile(w, *r.File); err != nil {
				return err
			}
		}
		return drawContent(w, *r.Content, o.top)
	}
}

func quotaLine(r ops.QuotaReport) string {
	known := ""
	if !r.View().VotersKnown() {
		known = "of the members asked: "
	}
	quota := "no effective quota known"
	if r.EffectiveQuota != nil {
		quota = fmt.Sprintf("effective quota %s (%s)", sizeText(*r.EffectiveQuota), r.LimitedBy)
	}
	used := ""
	if r.Usage != nil {
		used = fmt.Sprintf(", fullest member %s at %.1f%%", r.Fullest, 100**r.Usage)
	}
	return render.Safe(fmt.Sprintf("cluster %s: %s%s%s; the largest put that passes now has %d bytes (key and value)",
		r.ClusterID, known, quota, used, r.LargestPut))
}

func quotaMemberColumns() render.Columns[ops.QuotaMember] {
	type m = ops.QuotaMember
	return render.Columns[m]{
		{Header: "name", Value: func(x m) string { return x.Name }},
		{Header: "id", Value: func(x m) string { return x.ID }},
		{Header: "role", Value: func(x m) string { return x.Role }},
		{Header: "version", Value: func(x m) string { return orDash(x.Version) }},
		{Header: "db size", Right: true, Value: func(x m) string { return bytesOrDash(x.DBSize) }},
		{Header: "in use", Right: true, Value: func(x m) string { return bytesOrDash(x.DBInUse) }},
		{Header: "free", Right: true, Value: func(x m) string { return bytesOrDash(x.DBFree) }},
		{Header: "quota", Right: true, Value: quotaCell},
		{Header: "used", Right: true, Value: func(x m) string { return ratioOrDash(x.Usage) }},
		{Header: "left", Right: true, Value: func(x m) string { return bytesOrDash(x.Headroom) }},
		{Header: "largest put", Right: true, Value: func(x m) string { return bytesOrDash(x.LargestPut) }},
		{Header: "alarms", Value: func(x m) string { return orDash(strings.Join(x.Alarms, ",")) }},
	}
}

func quotaCell(m ops.QuotaMember) string {
	switch {
	case m.DBSize == nil:
		return "-"
	case m.QuotaDisabled:
		return "none"
	case m.Quota == nil:
		return "not told"
	case m.QuotaAssumed:
		return sizeText(*m.Quota) + " (assumed)"
	}
	return sizeText(*m.Quota)
}

func ratioOrDash(r *float64) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100**r)
}

// part is a row of what fills the file.
type part struct {
	what  string
	bytes keyspace.Estimate
	note  string
}

// ownPages is more than etcd's own pages take, in bytes: 20 KiB of an empty database, and
// the list of free ones.
const ownPages = 1 << 20

func drawFile(w io.Writer, f ops.FileContent) error {
	exact := func(n int64) keyspace.Estimate { return keyspace.Estimate{Bytes: float64(n)} }
	compacted := "never compacted"
	if f.LastCompact > 0 {
		compacted = fmt.Sprintf("compacted up to revision %d", f.LastCompact)
	}
	other := "etcd's own pages"
	if f.Other > ownPages {
		other = "pages that are partly filled, or that a reader holds on to, and etcd's own"
	}
	fmt.Fprintf(w, "\nwhat fills %s's file\n", render.Safe(f.Member))
	columns := append(estimateColumns(func(p part) keyspace.Estimate { return p.bytes }),
		render.Column[part]{Header: "of file", Right: true, Value: func(p part) string {
			return fmt.Sprintf("%.1f%%", 100*p.bytes.Bytes/float64(max(f.DBSize, 1)))
		}},
		render.Column[part]{Header: "", Value: func(p part) string { return p.note }})
	columns = append(render.Columns[part]{{Header: "what", Value: func(p part) string { return p.what }}}, columns...)
	parts := []part{
		{"live", f.Live, "the newest revision of each key, as it is after a defrag"},
		{"history", f.History, fmt.Sprintf("%d revisions kept, %s; kvd compact frees it", f.Revisions, compacted)},
		{"free", exact(f.Free), "pages inside the file that kvd defrag gives back"},
		{"other", exact(f.Other), other},
		{"reclaimable", f.Reclaimable, "by compaction to the head and defrag"},
	}
	if f.Leases != nil {
		parts = slices.Insert(parts, 1, part{"leases", f.Leases.Bytes, fmt.Sprintf("%d leases, by their number; only their end frees them", f.Leases.Count)})
	}
	return columns.Write(w, parts)
}

func drawContent(w io.Writer, u keyspace.Usage, top int) error {
	how := fmt.Sprintf("bytes from a sample, ± is the 95%% interval; read %s", sizeText(u.ReadBytes))
	if u.Exact {
		how = "every value was read: " + sizeText(u.ReadBytes)
	}
	fmt.Fprintf(w, "\nlive keys: %d, %s%s, at revision %d of %s (%s)\n", u.Keys, sizeText(int64(u.Live.Bytes)), plusMinus(u.Live), u.Revision,
		render.Safe(u.Member), how)
	if len(u.Groups) > 0 {
		fmt.Fprintln(w, "\nprefixes by bytes")
		if err := groupColumns().Write(w, first(u.Groups, top)); err != nil {
			return err
		}
		fmt.Fprintln(w, "\nprefixes by number of keys")
		byKeys := slices.Clone(u.Groups)
		slices.SortStableFunc(byKeys, func(a, b keyspace.Group) int { return cmp.Compare(b.Keys, a.Keys) })
		if err := groupColumns().Write(w, first(byKeys, top)); err != nil {
			return err
		}
	}
	if len(u.Spaces) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nnamespaces by bytes")
	return spaceColumns().Write(w, first(u.Spaces, top))
}

// first returns the first n rows, all for 0.
func first[T any](rows []T, n int) []T { return rows[:min(cmp.Or(n, len(rows)), len(rows))] }

func estimateColumns[T any](of func(T) keyspace.Estimate) render.Columns[T] {
	return render.Columns[T]{
		{Header: "bytes", Right: true, Value: func(x T) string { return sizeText(int64(of(x).Bytes)) }},
		{Header: "±", Right: true, Value: func(x T) string {
			if e := of(x).Error; e > 0 {
				return sizeText(int64(e))
			}
			return "0"
		}},
	}
}

func plusMinus(e keyspace.Estimate) string {
	if e.Error == 0 {
		return ""
	}
	return " ± " + sizeText(int64(e.Error))
}

func groupColumns() render.Columns[keyspace.Group] {
	type g = keyspace.Group
	columns := render.Columns[g]{
		{Header: "prefix", Value: func(x g) string {
			if x.Prefix == "" {
				return "(no prefix)"
			}
			return string(x.Prefix)
		}},
		{Header: "keys", Right: true, Value: func(x g) string {
			if x.Loose {
				return "≈ " + strconv.FormatInt(x.Keys, 10)
			}
			return strconv.FormatInt(x.Keys, 10)
		}},
	}
	columns = append(columns, estimateColumns(func(x g) keyspace.Estimate { return x.Bytes })...)
	return append(columns,
		render.Column[g]{Header: "of live", Right: true, Value: func(x g) string { return fmt.Sprintf("%.1f%%", 100*x.Share) }},
		render.Column[g]{Header: "average", Right: true, Value: func(x g) string { return sizeText(int64(x.Bytes.Bytes / float64(max(x.Keys, 1)))) }},
		render.Column[g]{Header: "largest seen", Right: true, Value: func(x g) string { return sizeText(x.Largest) }},
		render.Column[g]{Header: "old revisions", Right: true, Value: func(x g) string { return "≥ " + strconv.FormatInt(x.History, 10) }})
}

func spaceColumns() render.Columns[keyspace.Space] {
	type s = keyspace.Space
	return render.Columns[s]{
		{Header: "namespace", Value: func(x s) string { return string(x.Namespace) }},
		{Header: "keys", Right: true, Value: func(x s) string { return strconv.FormatInt(x.Keys, 10) }},
		{Header: "bytes", Right: true, Value: func(x s) string { return sizeText(x.Bytes) }},
		{Header: "of live", Right: true, Value: func(x s) string { return fmt.Sprintf("%.1f%%", 100*x.Share) }},
	}
}
