package wal

import (
	"fmt"
	"path/filepath"
)

// hint says what to do about the cause of a start that fails, or of what does not fit.
func (x *exam) hint(cause string) string {
	db := x.Database
	switch cause {
	case CauseForeign: // by a server that is older, and may well be running
		return "start the version of etcd that wrote it once more, with `--snapshot-count 10`, until it has taken some writes and `kvd wal list` shows a snapshot record behind that entry; then upgrade, one minor version at a time"
	case NotAMember:
		return x.hintNotAMember()
	case CauseNewer, CauseLearners, CauseNoVoter, CauseOldRestore:
		return x.hintContent(cause)
	case CauseUnborn, CauseSentEmpty, CauseGhosts:
		return x.hintVoters(cause)
	}
	if x.Live != "" {
		return x.remedy()
	}
	switch cause {
	case CauseEntries, CauseSegments, string(BadChain):
		if names := x.renames(); names != nil {
			return x.hintNames(names)
		}
	}
	switch cause {
	case CauseFolder:
		return hintFolder
	case CauseNoDB:
		return fmt.Sprintf("before anything is started, `cp %s %s`: with the copy in place etcd starts; without, it removes the only database there is", db.Path, filepath.Join(filepath.Dir(db.Path), "db"))
	case CauseUnread:
		switch {
		case db.noFile && lostLink(db.Path) != "":
			return "mount what it leads to, or put the database there again; start nothing without it, and verify again"
		case db.noFile:
			return x.withoutDB()
		}
		return fmt.Sprintf("`kvd snapshot verify %s` says what is wrong with it; %s", db.Path, x.withoutDB())
	case DBBehindSnap:
		return x.hintBehind()
	case string(BadChain):
		return x.hintChain()
	case string(NotRead):
		return x.hintNotRead()
	}
	return x.remedy()
}

// remedy says how to get a member back whose log is of no use, as commands.
func (x *exam) remedy() string {
	db, name := x.Database, x.nameOf(x.Member)
	if x.Live != "" {
		return fmt.Sprintf("it serves from memory and its database: do not restart it before `kvd snapshot save FILE` has taken a snapshot of it; "+
			"then, one of several members: `kvd member replace %s`; the only one: stop it, keep a copy of its data directory, and `kvd snapshot restore FILE --data-dir NEW`", name)
	}
	if db == nil || db.empty() || db.unopenable || x.standing == isAlien {
		return fmt.Sprintf("one of several members: `kvd member replace %s`, asking one that is well; the only one: `kvd snapshot restore FILE --data-dir NEW` of the newest snapshot there is", name)
	}
	restore := fmt.Sprintf("keep a copy of the data directory, then `kvd snapshot restore %s --skip-hash-check --data-dir NEW`", db.Path)
	if lost := span(db.ConsistentIndex+1, x.all.Index); lost != nil && db.Unread == "" {
		restore += ", which is without " + lost.String()
	}
	switch n := db.voters(); {
	case x.isLearner():
		return fmt.Sprintf("`kvd member replace %s`, asking a member that is well: this one is a learner, and the others do without it", name)
	case n > 1:
		return fmt.Sprintf("`kvd member replace %s`, asking a member that is well; only if most of the %d voters are lost: %s", name, n, restore)
	case x.votesAlone():
		return restore
	}
	return "one of several members: `kvd member replace " + name + "`; the only one: " + restore
}

// copyWords begin what is to be done with a log of which a start destroys something.
const copyWords = "copy the WAL folder before anything is started on it; "

// copyFirst is remedy for a log of which a start destroys something.
func (x *exam) copyFirst() string {
	if x.Live != "" {
		return x.remedy()
	}
	return copyWords + x.remedy()
}

// rebuilds reports whether a start makes the whole database of the log alone.
func (x *exam) rebuilds() bool {
	return x.stop == nil && x.newest().Index == 0 && len(x.runs) > 0 && x.runs[0].from.Index <= 1 && x.segments[0].Index == 0
}

// withoutDB says what to do with a database that is of no use to this log.
func (x *exam) withoutDB() string {
	if x.rebuilds() {
		return fmt.Sprintf("the log goes back to entry 1: move %s away and keep it, and a start makes the database anew of the log, so that nothing is lost", x.Database.Path)
	}
	return x.remedy()
}

func (x *exam) hintNotAMember() string {
	name := x.nameOf(x.Member)
	if x.standing == wasRemoved {
		return fmt.Sprintf("if it is to take part again: `kvd member add %s --peer-urls URL`, asking a member, and start it with an empty data directory; what is here is of no more use to the cluster, but keep it as long as nobody misses it", name)
	}
	return fmt.Sprintf("restore nothing from %s, which is not this member's; put its own database back, if there is a copy; else %s", x.Database.Path, x.withoutDB())
}

// hintBehind is for a database that is older than the newest snapshot record.
func (x *exam) hintBehind() string {
	where, from := "where it belongs", uint64(1)
	if db := x.Database; db != nil {
		where, from = "in place of "+db.Path+", which is moved away and kept", db.ConsistentIndex+1
	}
	hint := fmt.Sprintf("put a database of this member that has come to entry %d or further %s, and a start applies the rest of the log, so that nothing is lost; if there is none: %s",
		x.newest().Index, where, x.remedy())
	if lost := span(from, x.all.Index); lost != nil && x.standing != isAlien {
		hint += fmt.Sprintf("; what is lost by that, `kvd wal dump %s --index %d..%d` shows, as far as the log has it", x.Dir, lost.From, lost.To)
	}
	return hint
}

// hintChain is for a segment that does not go on where the one before it ended.
func (x *exam) hintChain() string {
	b := x.Verdict.damage
	if b == nil || b.Offset > 0 || b.segment == 0 {
		return x.remedy()
	}
	before, here := x.segments[b.segment-1], x.segments[b.segment]
	switch {
	case here.Seq == before.Seq:
		stray := here
		if before.Name != before.canonical() && here.Name == here.canonical() {
			stray = before
		}
		return fmt.Sprintf("move %s out of the WAL folder, keep it, and verify again: two files of one number are a segment and a copy of it, or of another log's; if that is worse, it was the other one", stray.Name)
	case here.Seq > before.Seq+1:
		return "put back what is missing from a copy of the folder, if there is one; else " + x.remedy()
	}
	return x.remedy()
}

// hintNotRead is for a segment that the system does not give.
func (x *exam) hintNotRead() string {
	path := filepath.Join(x.Dir, x.Verdict.At.File)
	hint := unreadableHint(path)
	if lostLink(path) != "" {
		return hint
	}
	return hint + "; " + x.remedy()
}

// canonical is the name that etcd gives a segment.
func (s Segment) canonical() string { return fmt.Sprintf("%016x-%016x.wal", s.Seq, s.Index) }

// chainWords says what is seen of the names where a segment does not go on.
func chainWords(before, here Segment) string {
	switch missing := span(before.Seq+1, here.Seq-1); {
	case here.Seq == before.Seq:
		return fmt.Sprintf("; %s and %s have the same number", before.Name, here.Name)
	case here.Seq < before.Seq || missing == nil:
		return ""
	case missing.Count == 1:
		return fmt.Sprintf("; segment %d is missing between %d and %d", missing.From, before.Seq, here.Seq)
	default:
		return fmt.Sprintf("; segments %d to %d are missing between %d and %d", missing.From, missing.To, before.Seq, here.Seq)
	}
}
