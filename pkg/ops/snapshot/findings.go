package snapshot

import (
	"fmt"

	"kvd/pkg/ops/dbfile"
)

// findings lists what is wrong, and what somebody who restores the file should know.
func (e *examination) findings() []Finding {
	out := []Finding{}
	add := func(s Severity, class, format string, args ...any) {
		out = append(out, Finding{Severity: s, Class: class, Message: fmt.Sprintf(format, args...)})
	}
	if e.hashes.state == HashMismatch {
		add(SeverityError, string(ClassHashMismatch), "the hash in the file is %s, that of its content %s", e.hashes.stored, e.hashes.expected)
	}
	if e.header.OtherMeta != "" {
		page := uint64(1 - e.header.MetaPage)
		offset := int64(page) * int64(e.header.PageSize)
		out = append(out, Finding{Severity: SeverityError, Class: string(ClassBadMeta), Message: e.header.OtherMeta, Page: &page, Offset: &offset})
	}
	for _, d := range e.damages {
		out = append(out, damageFinding(d))
	}
	if more := e.damaged - int64(len(e.damages)); more > 0 {
		add(SeverityError, string(ClassBadPages), "%d more of the kind", more)
	}
	if e.inconsistent > 0 {
		add(SeverityError, string(ClassBadRecords), "%s", e.contradiction()[2:])
	}
	if e.gaps > 0 && e.damaged == 0 {
		add(SeverityError, string(ClassMissing), "%s", e.gapWords())
	}
	return append(out, e.notes()...)
}

func damageFinding(d *dbfile.Damage) Finding {
	f := Finding{Severity: SeverityError, Class: d.Class, Message: d.Msg, Bucket: d.Bucket}
	if d.Page != 0 {
		f.Page, f.Offset = &d.Page, &d.Offset
	}
	if d.Element >= 0 {
		f.Message = fmt.Sprintf("element %d: %s", d.Element, d.Msg)
	}
	if d.Bucket == dbfile.BucketKey {
		f.LostFrom, f.LostBefore = lost(d)
	}
	return f
}

// notes are what a restore brings back or leaves out.
func (e *examination) notes() []Finding {
	var out []Finding
	add := func(s Severity, class, format string, args ...any) {
		out = append(out, Finding{Severity: s, Class: class, Message: fmt.Sprintf(format, args...)})
	}
	s := &e.status
	if in := s.Integrity; in.ManifestMessage != "" {
		add(SeverityWarning, "manifest_"+string(in.Manifest), "%s", in.ManifestMessage)
	}
	if s.PendingCompactRevision != nil {
		add(SeverityNote, "pending_compaction", "a compaction to revision %d has not ended; the first start carries it out", *s.PendingCompactRevision)
	}
	for _, a := range s.Alarms {
		add(SeverityWarning, "alarm_inside", "alarm %s of member %s is inside: a restored cluster starts with it raised", a.Type, a.MemberID)
	}
	if s.Leases.Count > 0 {
		add(SeverityNote, "leases_return", "%s with %s: each lives for its full TTL again (up to %d s) after the first election",
			count(s.Leases.Count, "lease", "leases"), count(s.Leases.Keys, "key", "keys"), s.Leases.MaxTTLSeconds)
	}
	if n := s.Leases.KeysWithout; n > 0 {
		verb := "are"
		if n == 1 {
			verb = "is"
		}
		add(SeverityWarning, "leases_missing", "%s %s on leases that are not in the file, the first of them %x: no start gives them an end again, until they are put anew or deleted (`kvd keys list FILE --lease %x`)",
			count(n, "key", "keys"), verb, uint64(e.leases.first), uint64(e.leases.first)) //nolint:gosec // the same bits
	}
	if s.Auth.Enabled {
		add(SeverityNote, "auth_enabled", "authentication is on (%s, %s): the restored cluster asks for root's password", count(s.Auth.Users, "user", "users"), count(s.Auth.Roles, "role", "roles"))
	}
	for _, m := range s.Members {
		if m.Learner {
			add(SeverityNote, "learner_inside", "member %s (%s) is a learner; a restore makes voters of the members that it is told, and no learner", m.Name, m.ID)
		}
	}
	if s.Downgrade != nil {
		add(SeverityWarning, "downgrade_active", "a downgrade to %s was under way", s.Downgrade.TargetVersion)
	}
	if s.FreelistPages != nil {
		add(SeverityNote, "freelist_stored", "a freelist of %d pages is stored: another tool than etcd has opened the file for writing", *s.FreelistPages)
	}
	return out
}
