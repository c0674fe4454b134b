package diagnose

import (
	"fmt"
	"path/filepath"
	"slices"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/ops/wal"
)

// aboutPair are causes of findings that log and database do not fit each other; all
// others are about the log alone.
func aboutPair(cause string) bool {
	return slices.Contains([]string{wal.NoWAL, wal.LogBehindDB, wal.TermConflict, wal.DBBehindSnap, wal.NotAMember, wal.OtherCluster,
		wal.CauseNoDB, wal.CauseUnread, wal.CauseSentDB, wal.CauseSentEmpty, wal.CauseFolder, wal.CauseGhosts, wal.CauseLearners, wal.CauseNoVoter, wal.CauseOldRestore, wal.CauseUnborn}, cause)
}

// checkStart says what a start on a directory does.
func checkStart() Check {
	return Check{
		Name: "start", Asks: "does etcd start on it, with all that was in it?", IDs: []string{"KVD-CORRUPT-003", "KVD-CORRUPT-004", "KVD-DISK-004", "KVD-OPS-003", "KVD-VERSION-004"}, Needs: []Need{NeedDirs},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			good := []string{}
			for _, d := range in.Dirs {
				if d.Log == nil {
					continue
				}
				outcome := d.Log.Verdict.Outcome.Words()
				found := slices.DeleteFunc(d.start(), func(f Finding) bool { return f.ID == "KVD-VERSION-004" && in.before37() })
				if in.before37() && d.Log.Own != nil {
					outcome = d.Log.Own.Outcome.Words() + ", in the version that wrote it"
				}
				if len(found) == 0 {
					found = d.otherLife()
				}
				out = append(out, found...)
				if len(found) == 0 {
					good = append(good, fmt.Sprintf("%s: %s, up to entry %d", d.Path, outcome, d.Log.Numbers.Last.Index))
				}
			}
			return out, list(good)
		},
	}
}

// before37 reports an update that is planned to a version before 3.7: what 3.7 makes of
// a directory is then no matter.
func (in *Input) before37() bool {
	if in.Target == nil {
		return false
	}
	v, ok := parse(in.Target.Version + ".0")
	return ok && v.Major == 3 && v.Minor < 7
}

// start makes findings of a log's verification, the verdict first.
func (d *Dir) start() []Finding {
	var out []Finding
	for _, w := range d.Log.Findings {
		if w.Severity == wal.Remark {
			continue
		}
		id := "KVD-CORRUPT-003"
		if aboutPair(w.Cause) {
			id = "KVD-CORRUPT-004"
		}
		if d.damagedDB() && w.Cause == wal.CauseUnread { // checkDatabase says it; of the log a start sees nothing then
			out = append(append(out, Finding{ID: "KVD-CORRUPT-005", Subject: d.Path, elsewhere: true}), d.damagedToo()...)
			continue
		}
		if w.Cause == wal.CauseGhosts && slices.ContainsFunc(d.unstarted(), func(f Finding) bool { return f.Severity == Critical }) { // which says it, and whose they are
			out = append(out, Finding{ID: "KVD-RAFT-008", Subject: d.Path, elsewhere: true})
			continue
		}
		f := Finding{ID: id, Severity: Severity(w.Severity), Subject: d.Path, Evidence: d.numbers(),
			Summary: d.verdict().Outcome.Words() + ": " + w.Says}
		d.judgeOther(&f, w)
		if w.Hint != "" {
			f.Remedy = []string{w.Hint}
		}
		d.judgeLostDB(&f, w.Cause)
		f.Remedy = append(f.Remedy, "kvd wal verify "+d.verifyArgs()+"  # every damage, with its place")
		out = append(out, f)
	}
	return out
}

// judgeOther makes a finding about versions of one that is no damage, but of another
// version's making, and one about the disk, or who has the database, of one that is not about
// what is in the files.
func (d *Dir) judgeOther(f *Finding, w wal.Finding) {
	switch {
	case w.Cause == wal.CauseDiskFull, w.Cause == wal.CauseLocked:
		f.ID, f.Summary = "KVD-DISK-004", w.Says
		if w.Cause == wal.CauseLocked {
			f.ID = "KVD-OPS-003"
		}
		f.Evidence = []Evidence{{What: "but for that", Text: d.verdict().Outcome.Words(), Source: d.Path}}
	case w.Cause == wal.CauseNewer:
		f.ID = "KVD-VERSION-004"
	case w.Cause == wal.CauseForeign, (w.Cause == wal.CauseLearners || w.Cause == wal.CauseNoVoter) && d.Log.Own != nil:
		f.ID, f.Severity, f.Summary = "KVD-VERSION-004", Warning, "etcd 3.7 does not start on it, and the version that wrote it does: "+w.Says
		if d.Holder != "" {
			f.Severity = Info // it runs
		}
		if d.Log.Own.Outcome != wal.Starts {
			f.Summary = "etcd 3.7 would not start on it if it were whole: " + w.Says
		}
	}
}

// damagedToo tells of damage in a log that a start does not come to, since it ends on the
// database before.
func (d *Dir) damagedToo() []Finding {
	if len(d.Log.Damages) == 0 {
		return nil
	}
	b := d.Log.Damages[0]
	f := Finding{ID: "KVD-CORRUPT-003", Severity: Critical, Subject: d.Path, Summary: fmt.Sprintf("the log is damaged as well as the database: %s: %s", b.Position, b.Why),
		Evidence: append(d.numbers(), Evidence{What: "damages found", Value: float64(d.Log.Damaged), Unit: Count, Source: d.Log.Dir}),
		Remedy:   []string{"keep a copy of the directory before anything is started on it", "kvd wal verify " + d.verifyArgs() + "  # every damage, with its place"}}
	if b.Repaired() && b.Behind == 0 {
		f.Severity = Warning
		f.Summary += "; that alone etcd would repair itself"
	}
	return []Finding{f}
}

// logArg names the log to a command: by the directory, or by its own folder where it is
// not in it, as with --wal-dir.
func (d *Dir) logArg() string {
	for _, sub := range []string{filepath.Join("member", "wal"), "wal", ""} { // as wal.Find looks
		if d.Log.Dir == "" || filepath.Join(d.Path, sub) == filepath.Clean(d.Log.Dir) {
			return ShellWord(d.Path)
		}
	}
	return ShellWord(d.Log.Dir)
}

// verifyArgs is logArg, with the database that is then not beside the log.
func (d *Dir) verifyArgs() string {
	if log := d.logArg(); log == ShellWord(d.Path) || d.Log.Database == nil {
		return log
	}
	return d.logArg() + " --db " + ShellWord(d.Log.Database.Path)
}

// verdict is what a start does: that of etcd 3.7, or of the version that wrote the
// log where only 3.7 refuses it.
func (d *Dir) verdict() wal.Verdict {
	if d.Log.Own != nil {
		return *d.Log.Own
	}
	return d.Log.Verdict
}

// otherLife finds a database that its log cannot have made. An entry makes one
// revision at most, so that a database with more revisions than entries was
// restored; and a restore begins the log with a snapshot record, which a log that
// still has index 1 has kept.
func (d *Dir) otherLife() []Finding {
	if d.DB == nil || d.DB.Content == nil || d.Log.Dir == "" || d.First != 1 || d.restored() {
		return nil
	}
	rev, applied := d.DB.Content.Revision, d.DB.Content.ConsistentIndex
	if applied == 0 || rev-1 <= int64(applied) { //nolint:gosec // far below 2^63
		return nil
	}
	return []Finding{{ID: "KVD-CORRUPT-004", Severity: Critical, Subject: d.Path,
		Summary: fmt.Sprintf("the log is of another life: the database is at revision %d by entry %d, which only a restore leads to, and the log begins with index 1 and without one: a start applies its entries from %d on to data that have them already",
			rev, applied, applied+1),
		Evidence: append(d.numbers(), Evidence{What: "revision of the database", Value: float64(rev), Unit: Index, Source: d.DB.File}),
		Remedy: []string{"start it with the --wal-dir that the restore has written (without the flag: the data dir's own), and keep the other log until nobody misses it",
			"kvd snapshot restore FILE --data-dir NEW --wal-dir NEW-LOG  # else restore again"}}}
}

// judgeLostDB says what is still in the log where the database is gone, or is an
// older one than the log's snapshot record.
func (d *Dir) judgeLostDB(f *Finding, cause string) {
	if cause != wal.CauseNoDB && cause != wal.DBBehindSnap {
		return
	}
	has := uint64(0)
	if d.Log.Database != nil {
		has = d.Log.Database.ConsistentIndex
	}
	switch {
	case d.Log.Numbers.Newest.Index == 0 && cause == wal.CauseNoDB && d.First <= 1:
		f.Severity = Warning
		f.Summary = "the database is gone, and the log reaches back to index 1: a start applies all of it, and has the whole state again"
		f.Remedy = []string{"keep a copy of the directory, and start it"}
	case d.restored() && has == 0:
		f.Summary += "; the log begins with a restore, whose data were never in it: the same snapshot restored again with the same name, token and peer URLs, with this log beside it, has everything"
		f.Remedy = append([]string{"keep a copy of the directory before anything is started on it: a start leaves an empty database, which is not the member's data"}, f.Remedy...)
	case d.First > 0 && d.First <= has+1:
		f.Summary += fmt.Sprintf("; no entry is missing from index %d on: a copy of the log without its snapshot records, in a NEW directory, replays it", has+1)
		f.Remedy = append([]string{"keep a copy of the directory: a start leaves an empty database in place of a lost one"}, f.Remedy...)
	default:
		f.Summary += fmt.Sprintf("; the log begins at entry %d: entries %d to %d were in the lost database only", d.First, has+1, max(d.First, 1)-1)
		f.Remedy = append([]string{"keep a copy of the directory: a start leaves an empty database in place of a lost one"}, f.Remedy...)
	}
}

// restored reports that the log was begun by a restore: it writes as many entries
// as there are members, and a snapshot record behind them (saveWALAndSnap in
// etcdutl/snapshot/v3_snapshot.go).
func (d *Dir) restored() bool {
	for _, m := range d.Marks {
		if m.Index > 0 {
			return m.Index < 10 && m.Term <= 1 // no server takes a snapshot that early
		}
	}
	return false
}

// numbers are the four that have to fit each other, and whose they are.
func (d *Dir) numbers() []Evidence {
	v := d.Log
	out := []Evidence{
		{What: "last entry", Value: float64(v.Numbers.Last.Index), Unit: Index, Source: d.Path},
		{What: "its term", Value: float64(v.Numbers.Last.Term), Unit: Index, Source: d.Path},
		{What: "commit index", Value: float64(v.Numbers.Commit), Unit: Index, Source: d.Path},
		{What: "newest snapshot record", Value: float64(v.Numbers.Newest.Index), Unit: Index, Source: d.Path},
		{What: "first entry in the log", Value: float64(d.First), Unit: Index, Source: d.Path},
		{What: "member and cluster", Text: v.Member.String() + ", " + v.Cluster.String(), Source: d.Path},
	}
	if c := v.Numbers.Consistent; c != nil && v.Database != nil {
		out = append(out, Evidence{What: "consistent index of the database", Value: float64(*c), Unit: Index, Source: v.Database.Path})
	}
	return out
}

func (d *Dir) damagedDB() bool {
	return d.DB != nil && d.DB.Verdict == snapshot.NotRestorable
}

// checkDatabase says what is damaged in a database or snapshot.
func checkDatabase() Check {
	return Check{
		Name: "database", Asks: "are all pages and records what they should be?", IDs: []string{"KVD-CORRUPT-005", "KVD-CORRUPT-006"}, Needs: []Need{NeedDBs},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			var good []string
			for _, s := range in.stored() {
				if s.dir == nil && s.v.Verdict == snapshot.Unproven {
					out = append(out, unproven(s))
					continue
				}
				if s.v.Verdict == snapshot.Restorable || s.v.Verdict == snapshot.Unproven {
					good = append(good, fmt.Sprintf("%s: %s", s.path, inWords(s.v.Class)))
					continue
				}
				if s.dir != nil && s.dir.unused() {
					good = append(good, s.path+": nothing was stored yet, as where a first start has failed")
					continue
				}
				f := Finding{ID: "KVD-CORRUPT-005", Severity: Critical, Subject: s.path, Summary: s.v.Verdict.Words() + ": " + s.v.Summary}
				for i, x := range s.v.Findings {
					if i < 10 && x.Severity == snapshot.SeverityError {
						f.Evidence = append(f.Evidence, Evidence{What: x.Class, Text: x.Message, Source: pageOf(x)})
					}
				}
				f.Evidence = append(f.Evidence, Evidence{What: "damages found", Value: float64(s.v.DamagesFound), Unit: Count, Source: s.path})
				if s.v.Hint != "" {
					f.Remedy = []string{s.v.Hint}
				}
				f.Remedy = append(f.Remedy, "kvd snapshot verify "+ShellWord(s.path)+"  # every page, and what is lost with it")
				if s.dir != nil {
					f.Remedy = append(f.Remedy, "kvd member replace NAME  # one of several members", "kvd snapshot restore FILE --data-dir NEW  # the only one: from the newest snapshot")
				}
				out = append(out, f)
			}
			for _, d := range in.Dirs {
				out = append(out, d.lostKeys()...)
			}
			return out, list(good)
		},
	}
}

// unused reports a directory of a member that has not begun: etcd makes the database with one
// bucket before it knows whether it can join or begin a cluster, and takes it as it is the
// next time (bootstrap in server/v3/etcdserver/bootstrap.go).
func (d *Dir) unused() bool {
	return d.DB.Class == snapshot.ClassNotASnapshot && d.DB.Content != nil && slices.Equal(d.DB.Content.Buckets, []string{dbfile.BucketMeta}) &&
		d.Log != nil && d.Log.Verdict.Outcome == wal.Starts && d.Log.Numbers.Last.Index == 0
}

// inWords says what a file without damage is.
func inWords(c snapshot.Class) string {
	if c == snapshot.ClassRawCopy {
		return "all pages and records are well; a server's own file, which carries no hash (" + string(c) + ")"
	}
	return string(c)
}

// unproven tells of a file that nothing shows to be whole: what a member has open carries
// no hash either, so that of a data directory it is no matter.
func unproven(s storedFile) Finding {
	f := Finding{ID: "KVD-CORRUPT-005", Severity: Info, Subject: s.path, Summary: s.v.Summary, Why: "without a hash nothing shows that no value was changed, and that it is all that was saved",
		Evidence: []Evidence{{What: "class", Text: string(s.v.Class), Source: s.path}, {What: "size", Value: float64(s.v.SizeBytes), Unit: Bytes, Source: s.path},
			{What: "with a hash it would have", Value: float64(s.v.ExpectedBytes), Unit: Bytes, Source: s.path}},
		Remedy: []string{"compare its size with the original's", "kvd snapshot save FILE  # its file carries a hash", "kvd snapshot restore " + ShellWord(s.path) + " --skip-hash-check --data-dir NEW  # if there is no other"}}
	if s.v.Class == snapshot.ClassRawCopy {
		f.Summary = "no hash: a copied db file (raw copy), or a snapshot that was cut short by its last 32 bytes; its pages and records are well, and a restore needs --skip-hash-check"
	}
	return f
}

func pageOf(x snapshot.Finding) string {
	if x.Page == nil {
		return "the file as a whole"
	}
	return fmt.Sprintf("page %d", *x.Page)
}

func (d *Dir) lostKeys() []Finding {
	var out []Finding
	for _, l := range d.Lost {
		f := Finding{ID: "KVD-CORRUPT-006", Severity: Critical, Subject: d.Path,
			Summary: fmt.Sprintf("%s that one transaction deleted and put again are gone since the compaction to its own revision, %d: the tombstones are there, the puts are not",
				counted(len(l.Keys), "key"), l.Revision),
			Evidence: []Evidence{{What: "compacted to", Value: float64(l.Revision), Unit: Index, Source: d.DB.File},
				{What: "live keys", Value: float64(d.DB.Content.Keys), Unit: Count, Source: d.DB.File}, {What: "the transaction", Text: fmt.Sprintf("raft entry %d", l.Index), Source: d.Log.Dir}},
			Remedy: []string{fmt.Sprintf("kvd wal dump %s --index %d --show-values  # what they were", d.logArg(), l.Index), "restore the snapshot from before, or write them again",
				"etcd up to 3.7.3 does this (issue 22376); kvd compact avoids such a revision"}}
		for i, k := range l.Keys {
			if i < 5 {
				f.Evidence = append(f.Evidence, Evidence{What: "gone", Text: printable(k), Source: fmt.Sprintf("raft entry %d", l.Index)})
			}
		}
		out = append(out, f)
	}
	return out
}

// storedFile is a database or a snapshot.
type storedFile struct {
	path string
	dir  *Dir
	v    *snapshot.Verification
	held *Held
}

// stored lists all of them.
func (in *Input) stored() []storedFile {
	var out []storedFile
	for i := range in.Dirs {
		if d := &in.Dirs[i]; d.DB != nil {
			out = append(out, storedFile{d.DB.File, d, d.DB, d.Held})
		}
	}
	for _, f := range in.Files {
		if f.V == nil {
			continue
		}
		out = append(out, storedFile{f.Path, nil, f.V, f.Held})
	}
	return out
}
