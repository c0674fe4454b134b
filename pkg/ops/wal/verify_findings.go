package wal

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// Causes of findings beside those of a Mismatch, of a Damage, and of a Verdict.
const (
	CausePassedOver = "passed_over"     // damage that a start does not come to
	CauseUnread     = "database_unread" // the database cannot be read
	CauseNoDB       = "no_database"     // there is none beside the log
)

// Causes of remarks: what looks odd, and is in order.
const (
	CausePurged      = "purged"
	CauseFile        = "other_file"
	CauseUncommitted = "uncommitted"
	CauseCommitLow   = "commit_behind_db"
	CauseReplay      = "applied_again"
	CauseReplaced    = "entries_replaced"
	CauseName        = "name_differs"
	CauseInFlight    = "in_flight"
	CauseSent        = "database_from_peer"
	CauseSnapFile    = "snap_file"
	CauseCompare     = "compare"
)

// conclude makes verdict and findings of what was collected.
func (x *exam) conclude(files []OtherFile) {
	x.count()
	v := x.start()
	x.Verdict = v
	x.standByDB()
	x.Numbers = Numbers{Commit: x.state.Commit, Newest: x.newest(), Last: v.replay}
	if n := len(x.runs); v.replay == (EntryID{}) && n > 0 {
		x.Numbers.Last = x.runs[n-1].to
	}
	if db := x.Database; db != nil && db.Unread == "" {
		x.Numbers.Consistent = &db.ConsistentIndex
	}
	x.judge()
	x.remark(files)
}

func (x *exam) add(s Severity, cause, hint, format string, args ...any) {
	x.Findings = append(x.Findings, Finding{s, Mismatch{cause, fmt.Sprintf(format, args...), hint}})
}

// judge makes findings of the verdict, and of what does not fit although etcd
// starts on it.
func (x *exam) judge() {
	x.judgeVerdict(&x.Verdict)
	v := &x.Verdict
	if x.Own != nil {
		v = x.Own
		x.judgeVerdict(v)
	}
	for i := range x.Damages {
		if b := &x.Damages[i]; v.Outcome != Refuses && b != v.damage {
			x.add(Warning, CausePassedOver, "keep a copy; `kvd snapshot save` of this cluster is worth having", "%s: %s; a start does not come to it", b.Position, b.Why)
		}
	}
	if x.Database == nil || x.Database.Unread != "" {
		return
	}
	log := &Info{Metadata: x.Metadata, Last: x.Numbers.Last, Entries: x.Entries}
	for _, m := range Judge(log, x.Database.backend()) {
		switch {
		case m.Cause == v.cause, m.Cause == LogBehindDB && (v.Outcome == Refuses || x.standing == isAlien):
			continue // said, or because of what was said
		case m.Cause == NotAMember && (x.standing == isMember || v.cause == CauseOldRestore):
			continue // made one by an entry that is not applied yet
		}
		if m.Cause == LogBehindDB && x.othersVote() {
			m.Says += fmt.Sprintf("; a leader that remembers what this member had acknowledged ends it with \"tocommit(…) is out of range [lastIndex(%d)]\"", log.Last.Index)
		}
		severity := Critical
		m.Hint = x.hint(m.Cause)
		if m.Cause == LogBehindDB && x.votesAlone() {
			severity = Warning
			m.Hint = "nothing to do: the database has it, and its index is given to the entry of the next election, which holds nothing"
		}
		x.Findings = append(x.Findings, Finding{severity, m})
	}
}

// judgeVerdict makes a finding of a verdict.
func (x *exam) judgeVerdict(v *Verdict) {
	cause := v.cause
	if v.damage != nil && !v.keepsCause() {
		cause = string(v.damage.Class)
	}
	switch v.Outcome {
	case Starts:
	case Repairs:
		if b := v.damage; b.Behind > 0 { // no write that was cut short: what is behind it was written after it
			x.add(Critical, cause, x.copyFirst(), "%s; but %d records behind it can be read, and are lost by that", v.Why, b.Behind)
			break
		}
		hint := "nothing to do: such a write was not acknowledged, unless the disk lost what it had called written"
		if db := x.Database; db != nil && v.Lost != nil && db.Unread == "" && db.ConsistentIndex >= v.Lost.To && x.votesAlone() {
			hint = "nothing to do: the database has what was cut off"
		}
		x.add(Warning, cause, hint, "%s", v.Why)
	case Drops:
		x.add(Critical, cause, x.copyFirst(), "%s", v.Why)
	case NotKnown:
		cause = cmp.Or(cause, CauseUnread)
		x.add(Critical, cause, x.hint(cause), "%s", v.Why)
	case Silent, Refuses:
		hint := x.hint(cause)
		switch {
		case cause == string(Hidden):
			hint = x.copyFirst()
		case v.keepsCause() && v.damage != nil && x.Live == "":
			hint = copyWords + hint
		}
		x.add(Critical, cause, hint, "%s", v.Why)
	}
}

// remark tells what looks odd and is in order, so that nobody mends it.
func (x *exam) remark(files []OtherFile) {
	for _, f := range files {
		if f.Kind != FilePrepared || x.Live == "" {
			x.add(Remark, CauseFile, "", "%s: %s", f.Name, f.Means)
		}
	}
	if first := x.segments[0]; first.Seq > 0 && x.Verdict.cause != CauseSegments {
		x.add(Remark, CausePurged, "", "the log begins with segment %d, at entry %d: etcd removes segments that it no longer needs", first.Seq, first.Index)
	}
	if x.inFlight {
		x.add(Remark, CauseInFlight, "", "the last record is not whole: the server is writing it")
	}
	last := -1
	for _, r := range x.runs {
		if s := x.segments[r.segment]; r.segment != last && x.misnamed(r, s) {
			x.add(Remark, CauseName, "", "%s begins with entry %d: the name only matters for where a start begins to read", s.Name, r.from.Index)
		}
		last = r.segment
	}
	n := x.Numbers
	if x.replaced > 0 {
		x.add(Remark, CauseReplaced, "", "%s replaced by a later leader's, and had not been committed", were(x.replaced))
	}
	if s := span(n.Commit+1, n.Last.Index); s != nil {
		x.add(Remark, CauseUncommitted, "", "%s behind the commit index: that is written with the entries after, and not by itself%s", s.are(), x.ownRemoval(s.From))
	}
	switch db := x.Database; {
	case db == nil && x.bare:
		x.add(Remark, CauseNoDB, "--db names it", "no database is beside the log: what is said is of the log alone")
	case db == nil && x.Verdict.cause == CauseUnborn: // which says it
	case db == nil && (x.Verdict.Outcome != Refuses || x.Own != nil && x.Own.Outcome != Refuses): // else it would be missed, see needsSnapDB
		const anew = "etcd makes an empty one, and applies the log again, which goes back to entry 1, so that nothing is lost"
		if x.dbLink != "" {
			x.add(Warning, CauseNoDB, "mount what it leads to, before anything is started", "the database is a link to %s, which is not there: %s", x.dbLink, anew)
			break
		}
		x.add(Warning, CauseNoDB, "nothing to do but wait for it", "there is no database: "+anew)
	case db == nil || db.Unread != "":
	default:
		if x.sent && x.Verdict.cause != CauseSentEmpty {
			x.add(Remark, CauseSent, "", "etcd takes %s, which a leader sent, for its database", filepath.Base(db.Path))
		}
		if n.Commit < db.ConsistentIndex && db.ConsistentIndex <= n.Last.Index {
			x.add(Remark, CauseCommitLow, "", "the database is ahead of the commit index in the log (%d and %d): what is applied is committed, and the log hears of it late", db.ConsistentIndex, n.Commit)
		}
		if s := span(db.ConsistentIndex+1, n.Last.Index); s != nil && x.comesToEntries() {
			x.add(Remark, CauseReplay, "", "%s in the log and not in the database: a start applies %s", s.are(), s.them())
		}
		if x.othersVote() && x.Verdict.Outcome != Refuses && x.Verdict.cause != CauseOldRestore && x.Live == "" {
			x.add(Remark, CauseCompare, "asking a member that is well, `kvd status` shows how far the others are, and `kvd member list` whether this one is among them", "whether this member had acknowledged more than entry %d, as before an old copy was put back, "+
				"and whether the cluster has removed it since, only the others know: one that was down catches up, one that has lost entries ends with \"tocommit(…) is out of range [lastIndex(%d)]\" and is replaced, one that was removed ends with %q as soon as it reaches one of them, and waits for a leader until then", n.Last.Index, n.Last.Index, removedText)
		}
	}
}

// misnamed reports a segment that begins with another entry than its name says, but for one
// whose first entry a later leader has put in the place of an earlier one.
func (x *exam) misnamed(r run, s Segment) bool {
	return r.from.Index > max(s.Index, 1) || r.from.Index < s.Index && (r.segment == 0 || x.contents[r.segment-1].last < r.from.Index)
}

// comesToEntries reports a start that comes as far as the entries.
func (x *exam) comesToEntries() bool {
	v := &x.Verdict
	return v.Outcome != Refuses && v.cause != CauseSentEmpty || v.cause == CauseForeign
}

// withoutLog judges a data directory that has a database and no log. Where it has
// neither, it is the error.
func withoutLog(ctx context.Context, dir string, o VerifyOptions, noLog error) (*Verification, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, noLog // a segment, say: the folder is wanted
	}
	v := &Verification{Damages: []Break{}, Findings: []Finding{}, Verdict: Verdict{Outcome: Starts, Why: "no log, and nothing was applied: a new member's"}}
	for _, path := range []string{o.DB, filepath.Join(dir, "member", "snap", "db"), filepath.Join(dir, "snap", "db"), besideDB(dir)} {
		if path == "" {
			continue
		}
		db, err := readDatabase(ctx, path, path == o.DB && !o.DBLost)
		if err != nil {
			return nil, err
		}
		if db == nil {
			continue
		}
		if err := heldWithoutLog(path, dir); err != nil {
			return nil, err
		}
		v.Database = db
		break
	}
	misnamed := misnamedWAL(dir)
	if v.Database == nil && misnamed == "" {
		return nil, noLog
	}
	x := exam{Verification: *v}
	refusal, newer := x.newerStorage()
	ofMany := ""
	switch db := x.Database; {
	case db != nil && (db.unopenable || db.cut): // opened before the log is looked for
		x.Verdict = unopenable(db)
	case misnamed != "":
		x.Verdict = Verdict{Outcome: Refuses, Message: "wal: file not found", Why: misnamed + " ends in .wal, so that etcd looks for a log, and it is no segment"}
	case db.Unread != "":
		x.Verdict = Verdict{Outcome: NotKnown, Why: "the database cannot be read: " + db.Unread}
	case newer:
		x.Verdict = refusal
	case db.ConsistentIndex > 0 && x.votesAlone():
		x.Verdict = x.apply(x.Verdict)
	case db.ConsistentIndex > 0:
		x.Verdict = Verdict{Outcome: NotKnown, Why: "without a log it depends on --initial-cluster-state and on what the peers say"}
		ofMany = "; where others can be reached it ends, with \"has already been bootstrapped\", unless --initial-cluster-state is existing"
	}
	if db := x.Database; db != nil && db.Unread == "" {
		x.Numbers.Consistent = &db.ConsistentIndex
		for _, m := range Judge(nil, db.backend()) {
			if newer {
				break // the start does not come as far
			}
			m.Says += ofMany
			m.Hint = fmt.Sprintf("a member that runs with --wal-dir has it elsewhere: `kvd wal verify WALDIR --db %s`; else %s", db.Path, x.remedy())
			if lost := lostFolder(dir); lost != "" {
				m.Says, m.Hint = m.Says+"; but "+lost, hintFolder
			}
			x.Findings = append(x.Findings, Finding{Critical, m})
		}
	}
	if len(x.Findings) == 0 && x.Verdict.Outcome != Starts {
		cause := NoWAL // also where the database comes first: that it cannot be opened, the verdict says
		if x.Verdict.cause == CauseNewer {
			cause = CauseNewer
		}
		x.add(Critical, cause, x.hint(x.Verdict.cause), "%s", x.Verdict.Why)
	}
	return &x.Verification, nil
}

// heldWithoutLog is the error for a database that a server has open, and no log beside it.
func heldWithoutLog(path, dir string) error {
	f, err := os.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	defer f.Close()
	holder, held := dbfile.HolderOf(f)
	if !held {
		return nil
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseNoWAL, Op: "read the WAL", Subject: dir,
		Msg:  fmt.Sprintf("%s has the database open, and no log is beside it: it runs with --wal-dir, or its log was deleted", holder),
		Hint: fmt.Sprintf("name the folder of its --wal-dir: `kvd wal verify WALDIR --db %s`; if it has none, do not restart it before `kvd snapshot save` has taken a snapshot of it", path)}
}

// misnamedWAL finds a file that makes etcd look for a log where there is none
// (Exist in server/storage/wal/util.go): in the WAL folder alone, be dir that, the member
// folder or the data directory.
func misnamedWAL(dir string) string {
	sub := ""
	for _, folder := range []string{"member", "snap", "wal"} {
		if info, err := os.Stat(filepath.Join(dir, folder)); err == nil && info.IsDir() {
			sub = "wal"
			if folder == "member" {
				sub = filepath.Join("member", "wal")
			}
			break
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, sub))
	for _, e := range entries {
		if err == nil && strings.HasSuffix(e.Name(), ".wal") {
			return filepath.Join(sub, e.Name())
		}
	}
	return ""
}
