package cli

import (
	"fmt"
	"io"
	"strings"

	"kvd/cmd/kvd/cli/render"
	"kvd/pkg/ops/snapshot"
)

// snapshotRow is one line of a status: what, and how much.
type snapshotRow struct{ name, value string }

// snapshotTable draws a status as a list, then the members.
func snapshotTable(s *snapshot.Status) func(io.Writer) error {
	return func(w io.Writer) error {
		rows := append(snapshotRows(s), snapshotInside(s)...)
		columns := render.Columns[snapshotRow]{
			{Header: "what", Value: func(r snapshotRow) string { return r.name }},
			{Header: "value", Value: func(r snapshotRow) string { return r.value }},
		}
		if err := columns.Write(w, rows); err != nil || len(s.Members) == 0 {
			return err
		}
		fmt.Fprintln(w)
		return snapshotMemberColumns().Write(w, s.Members)
	}
}

// snapshotRows are the file, its digests and its keys.
func snapshotRows(s *snapshot.Status) []snapshotRow {
	kv, whole := s.Digests.KV, "the file"
	if s.Packed != nil {
		whole = "the content"
	}
	rows := []snapshotRow{
		{"file", s.File},
		{"integrity", string(s.Integrity.Class) + ": " + strings.TrimPrefix(s.Integrity.Message, string(s.Integrity.Class)+": ")},
		{"size", sizeText(s.SizeBytes)},
		{"in use", sizeText(s.InUseBytes)},
		{"sha256 of " + whole, s.Digests.FileSHA256},
		{"sha256 of its pages", orDash(s.Digests.DataSHA256) + ", stored: " + string(s.Integrity.Hash)},
		{"hashkv", fmt.Sprintf("%d (revision %d, compacted %d)", kv.Hash, kv.Revision, kv.CompactRevision)},
		{"revision", fmt.Sprint(s.Revision)},
		{"compacted revision", numberOr(s.CompactRevision, "never compacted")},
	}
	if in := s.Integrity; in.Manifest != "" {
		rows = append(rows, snapshotRow{"manifest beside it", orDefault(in.ManifestMessage, string(in.Manifest))})
	}
	if s.Packed != nil {
		rows = append(rows, snapshotRow{"stored", fmt.Sprintf("%s, %s, sha256 %s", s.Packed.Compression, sizeText(s.Packed.SizeBytes), s.Packed.SHA256)})
	}
	if s.Live != "" {
		rows = append(rows, snapshotRow{"in use by", s.Live})
	}
	if s.PendingCompactRevision != nil {
		rows = append(rows, snapshotRow{"pending compaction", fmt.Sprintf("to revision %d", *s.PendingCompactRevision)})
	}
	return append(rows,
		snapshotRow{"keys", fmt.Sprint(s.Keys)},
		snapshotRow{"revisions kept", fmt.Sprintf("%d, %d of them deletions", s.Revisions, s.Tombstones)},
		snapshotRow{"live", sizeText(s.LiveBytes)},
		snapshotRow{"history", sizeText(s.HistoryBytes)})
}

// snapshotInside is what comes back with the keys.
func snapshotInside(s *snapshot.Status) []snapshotRow {
	leases := "none"
	if s.Leases.Count > 0 {
		leases = fmt.Sprintf("%d with %s, longest TTL %d s", s.Leases.Count, count(int(s.Leases.Keys), "key"), s.Leases.MaxTTLSeconds)
	}
	if n := s.Leases.KeysWithout; n > 0 {
		leases += fmt.Sprintf("; %s on leases that are not in it, for ever", count(int(n), "key"))
	}
	alarms := make([]string, 0, len(s.Alarms))
	for _, a := range s.Alarms {
		alarms = append(alarms, fmt.Sprintf("%s of %s", a.Type, a.MemberID))
	}
	auth := "off"
	if s.Auth.Enabled {
		auth = "on: a restored cluster asks for passwords"
	}
	rows := []snapshotRow{
		{"leases", leases},
		{"alarms", noneOr(strings.Join(alarms, ", "))},
		{"authentication", fmt.Sprintf("%s (%s, %s)", auth, count(int(s.Auth.Users), "user"), count(int(s.Auth.Roles), "role"))},
		{"cluster version", orDash(s.ClusterVersion)},
		{"storage version", orDefault(s.StorageVersion, "not stored (before 3.6)")},
		{"raft", fmt.Sprintf("index %d, term %d", s.ConsistentIndex, s.Term)},
	}
	if s.Downgrade != nil {
		rows = append(rows, snapshotRow{"downgrade", "to " + s.Downgrade.TargetVersion + ", under way"})
	}
	return rows
}

func snapshotMemberColumns() render.Columns[snapshot.Member] {
	type m = snapshot.Member
	return render.Columns[m]{
		{Header: "member", Value: func(x m) string { return orDash(x.Name) }},
		{Header: "id", Value: func(x m) string { return x.ID.String() }},
		{Header: "role", Value: func(x m) string {
			if x.Learner {
				return "learner"
			}
			return "voter"
		}},
		{Header: "peer urls", Value: func(x m) string { return strings.Join(x.PeerURLs, ",") }},
		{Header: "client urls", Value: func(x m) string { return orDash(strings.Join(x.ClientURLs, ",")) }},
	}
}

func numberOr(n int64, zero string) string {
	if n == 0 {
		return zero
	}
	return fmt.Sprint(n)
}

func noneOr(s string) string { return orDefault(s, "none") }

func orDefault(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}
