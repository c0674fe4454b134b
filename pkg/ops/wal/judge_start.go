package wal

import (
	"fmt"
	"math"
	"slices"
)

// Outcome is what etcd does when it starts on a log.
type Outcome string

// The outcomes.
const (
	Starts   Outcome = "starts"
	Repairs  Outcome = "repairs_itself"   // it cuts a record off that is not whole, keeps a copy, and starts
	Drops    Outcome = "drops_records"    // it starts, and without a word fills with zeros what stands behind a length of 0
	Silent   Outcome = "answers_nothing"  // it runs and listens, and serves nothing
	Refuses  Outcome = "refuses_to_start" // it ends, with Verdict.Message in its last words
	NotKnown Outcome = "not_known"        // the database, on which it depends, cannot be read
)

// Words says the outcome in a sentence.
func (o Outcome) Words() string {
	switch o {
	case Starts:
		return "etcd starts"
	case Repairs:
		return "etcd repairs the log itself, and starts"
	case Drops:
		return "etcd starts, and drops records without a word"
	case Silent:
		return "etcd starts, and answers nothing"
	case Refuses:
		return "etcd does not start"
	case NotKnown:
	}
	return "what etcd does is not known"
}

// Verdict is what etcd 3.7 does when it starts on a log and the database beside
// it, as its code does it (server/etcdserver/bootstrap.go and server/storage/wal).
type Verdict struct {
	Outcome Outcome    `json:"outcome"`
	Message string     `json:"message,omitempty"` // of etcd where it refuses: a part of it that is always the same
	At      *Position  `json:"at,omitempty"`      // where it stops reading, cuts, or fills with zeros
	Lost    *EntrySpan `json:"entries_lost,omitempty"`
	Begins  *Snapshot  `json:"begins_at,omitempty"` // the snapshot record that it begins behind
	Seconds int64      `json:"silent_seconds,omitempty"`
	Why     string     `json:"why"`
	damage  *Break
	cause   string  // of the finding, where no damage is behind it
	replay  EntryID // the last entry that it has when all is read
}

// Causes of a refusal that no damaged record is behind.
const (
	CauseSegments   = "segments_missing"    // the oldest one begins behind the snapshot record, or they are not consecutive
	CauseEntries    = "entries_missing"     // the log goes on behind a gap
	CauseCommit     = "commit_out_of_range" // more is said to be committed than the log has
	CauseSnapshot   = "snapshot_mismatch"   // two records of one index
	CauseNoSnapshot = "no_snapshot_record"  // none that is committed
	CauseSentDB     = "database_from_peer_old"
)

// publishSeconds is how long each of a starting member's tries to make itself
// known lasts (ReqTimeout in server/config/config.go, with the default election
// timeout). Each adds one entry to the log, and so did the election.
const publishSeconds = 7

// start says what a start does, in the order in which etcd does it.
func (x *exam) start() Verdict {
	if v, over := x.snapFolder(); over {
		return v
	}
	if db := x.Database; db != nil && (db.unopenable || db.cut) {
		return unopenable(db)
	}
	if v, over := x.scanSnapshots(); over {
		return v
	}
	snap := x.newest()
	if v, over := x.needsSnapDB(snap); over {
		return v
	}
	if v, over := x.newerStorage(); over {
		return v
	}
	first, v, over := x.selectSegments(snap)
	if over {
		return v
	}
	v, over = x.readAll(snap, first)
	v.Begins = &snap
	if over {
		return v
	}
	if v, over := x.newerCluster(v); over {
		return v
	}
	if x.missing && x.Database.ClusterVersion != "" {
		return Verdict{Outcome: Refuses, cause: CauseNoDB, Message: "backend is missing", Begins: &snap, replay: v.replay,
			Why: fmt.Sprintf("there is no database: etcd takes %s, which a leader sent, in its place, then sees that there was none, REMOVES it and ends", snapDBName(snap.Index))}
	}
	if refusal, over := x.tooManyLearners(v); over {
		return x.orOwn(snap, v, refusal)
	}
	if !slices.ContainsFunc(x.snaps, func(m Mark) bool { return m.Index <= x.state.Commit }) {
		return Verdict{Outcome: Refuses, cause: CauseNoSnapshot, Message: "invalid memory address or nil pointer dereference",
			Why: "the log has no snapshot record, not even that of index 0, which is the third record of every log"}
	}
	if refusal, over := x.noVoter(v); over {
		return x.orOwn(snap, v, refusal)
	}
	if s := x.state; s != (HardState{}) && s.Commit > v.replay.Index {
		return Verdict{Outcome: Refuses, cause: CauseCommit, Begins: &snap, Message: fmt.Sprintf("state.commit %d is out of range [%d, %d]", s.Commit, snap.Index, v.replay.Index),
			Why: fmt.Sprintf("entries up to %d are said to be committed, and the log ends at %d", s.Commit, v.replay.Index)}
	}
	foreign, over := x.applies(snap, v)
	v = x.appliedBehind(snap, v)
	if over {
		x.Own = &v
		return foreign
	}
	return v
}

// appliedBehind is what comes of the entries behind the snapshot record, but for those that
// only 3.7 cannot apply.
func (x *exam) appliedBehind(snap Snapshot, v Verdict) Verdict {
	if v, _ = x.applyMembers(snap, v); v.cause != NotAMember {
		v = x.apply(v)
	}
	return x.unborn(x.oldRestore(snap, v))
}

// unopenable is a database that bbolt does not open, which is the first thing of all.
func unopenable(db *Database) Verdict {
	if db.cut && !db.unopenable {
		return Verdict{Outcome: Refuses, cause: CauseUnread, Message: "fatal error: fault", Why: "the database was cut off, and a start visits every page of it: " + db.Unread}
	}
	return Verdict{Outcome: Refuses, cause: CauseUnread, Message: "failed to open database", Why: "the database cannot be opened: " + db.Unread}
}

// scanSnapshots is ValidSnapshotEntries: all segments are read for their snapshot
// records and the commit index. Damage ends the start, but a record that ends
// before its length says, in any segment, ends only the scan.
func (x *exam) scanSnapshots() (Verdict, bool) {
	if x.stop == nil {
		return Verdict{}, false
	}
	b := &x.Damages[*x.stop]
	switch b.Class {
	case BadCRC:
		return refuses(b, fmt.Sprintf("walpb: crc mismatch: expected: %s computed: %s: in file '%s' at position: %d", b.StoredCRC, b.ComputedCRC, b.File, b.Offset)), true
	case BadChain:
		return refuses(b, "walpb: crc mismatch"), true
	case Broken:
		return refuses(b, "cannot parse invalid wire-format data"), true
	case Hidden:
		if !b.Last { // the next segment's first record has the CRC of what is hidden
			return refuses(b, "walpb: crc mismatch"), true
		}
	case BadData:
		return refuses(b, complaint(b)), true
	case NotRead:
		return refuses(b, b.system), true
	case Torn, Unknown, Conflict, Nobody:
	}
	return Verdict{}, false
}

// newest is the snapshot record behind which etcd begins: the last whose index
// is committed. Without one it is 0.
func (x *exam) newest() (s Snapshot) {
	for _, m := range x.snaps {
		if m.Index <= x.state.Commit {
			s = m.Snapshot
		}
	}
	return s
}

// needsSnapDB is recoverSnapshot: a database that is older than the snapshot
// record is replaced by the one that a leader sent, which has to be there.
func (x *exam) needsSnapDB(snap Snapshot) (Verdict, bool) {
	db := x.Database
	switch {
	case db != nil && db.Unread != "":
		return Verdict{Outcome: NotKnown, Why: "the database cannot be read: " + db.Unread}, true
	case db == nil && x.bare, snap.Index == 0, db != nil && x.applied >= snap.Index:
		return Verdict{}, false
	case db != nil && x.sent && (x.missing || db.ConsistentIndex == 0): // only looked at if there was one; never saved, which etcd warns of
		return Verdict{}, false
	case db != nil && x.sent:
		return Verdict{Outcome: Refuses, cause: CauseSentDB, Message: fmt.Sprintf("index %d) does not match with snapshot (index %d)", db.ConsistentIndex, snap.Index),
			Why: fmt.Sprintf("the database that a leader sent has consistent index %d, and the snapshot record is of index %d", db.ConsistentIndex, snap.Index)}, true
	}
	return Verdict{Outcome: Refuses, cause: DBBehindSnap, Message: "failed to find database snapshot file (snap: snapshot file doesn't exist)",
		Why: fmt.Sprintf("the newest snapshot record is of index %d, %s, and there is no %s; %s", snap.Index, x.databaseWords(), snapDBName(snap.Index), x.reachWords())}, true
}

// databaseWords says what is there in place of a database that is new enough.
func (x *exam) databaseWords() string {
	switch db := x.Database; {
	case db == nil:
		return "there is no database"
	case db.empty():
		return "the database is empty, as a start makes one where it is missing"
	default:
		return fmt.Sprintf("the database has come to %d", db.ConsistentIndex)
	}
}

// reachWords says whether the log goes on where the database ends. A restore begins
// a log with the entries of term 1 that name the members, and a snapshot record that
// stands for what it restored (saveWALAndSnap in etcdutl/snapshot/v3_snapshot.go).
func (x *exam) reachWords() string {
	from := uint64(1)
	if x.Database != nil {
		from = x.Database.ConsistentIndex + 1
	}
	switch {
	case len(x.runs) == 0:
		return "the log has no entry"
	case from == 1 && slices.ContainsFunc(x.snaps, func(m Mark) bool { return m.Index > 0 && m.Term == 1 }):
		return "the log was begun by a restore: what was restored is in the snapshot file alone, and the log has what came after"
	case x.runs[0].from.Index > from:
		return fmt.Sprintf("the log begins with entry %d, so that entries from %d on are in neither", x.runs[0].from.Index, from)
	}
	kept := "both are"
	if x.Database == nil || x.Database.empty() {
		kept = "it is"
	}
	return fmt.Sprintf("the log has all entries from %d on, so that none is lost as long as %s kept", from, kept)
}

// selectSegments is selectWALFiles: which segment to begin with.
func (x *exam) selectSegments(snap Snapshot) (first int, v Verdict, over bool) {
	first = -1
	for i, s := range x.segments {
		if s.Index <= snap.Index {
			first = i
		}
	}
	if first < 0 {
		return 0, Verdict{Outcome: Refuses, cause: CauseSegments, Message: fmt.Sprintf("wal: file not found which matches the snapshot index '%d'", snap.Index),
			Why: fmt.Sprintf("the oldest segment begins at index %d, and %s: the entries between are missing", x.segments[0].Index, x.wanted(snap))}, true
	}
	last := uint64(0)
	for _, s := range x.segments[first:] {
		if last != 0 && last != s.Seq-1 {
			return first, Verdict{Outcome: Refuses, cause: CauseSegments, Message: fmt.Sprintf("wal: file sequence numbers (starting from %d) do not increase continuously", first),
				Why: fmt.Sprintf("segment %d is followed by segment %d", last, s.Seq)}, true
		}
		last = s.Seq
	}
	return first, Verdict{}, false
}

// wanted says from where on a start reads entries.
func (x *exam) wanted(snap Snapshot) string {
	if snap == (Snapshot{}) && !slices.ContainsFunc(x.snaps, func(m Mark) bool { return m.Snapshot == snap }) {
		return "no snapshot record is left, so that a start wants all from entry 1 on"
	}
	return fmt.Sprintf("the newest snapshot record is of index %d", snap.Index)
}

// readAll is ReadAll and the repair around it.
func (x *exam) readAll(snap Snapshot, first int) (Verdict, bool) {
	end, bad := x.replay(snap, first)
	if bad != nil {
		return *bad, true
	}
	v := Verdict{Outcome: Starts, Why: "the log is whole", replay: end}
	if x.stop == nil {
		return v, false
	}
	b := &x.Damages[*x.stop]
	switch {
	case b.Class == Hidden:
		v = Verdict{Outcome: Drops, At: &b.Position, Lost: b.Lost, damage: b, replay: end,
			Why: fmt.Sprintf("a length of 0 ends the log at %s, and what stands behind it is filled with zeros, without a word", b.Position)}
	case b.Repaired() && x.noCopy:
		return Verdict{Outcome: Refuses, Message: "failed to repair WAL", At: &b.Position, Lost: b.Lost, damage: b,
			Why: b.Why + fmt.Sprintf("; and etcd does not cut it off, since in place of the copy that it keeps, %s.broken, there is a folder", b.File)}, true
	case b.Repaired():
		v = Verdict{Outcome: Repairs, At: &b.Position, Lost: b.Lost, damage: b, replay: end,
			Why: fmt.Sprintf("the last record is not whole: the segment is cut off at offset %d, and kept as %s.broken", b.Offset, b.File)}
	case x.irreparable():
		return refuses(b, "failed to repair WAL"), true
	default: // it finds nothing to repair, and does not try twice
		return refuses(b, "failed to read WAL, cannot be repaired"), true
	}
	return v, false
}

// irreparable reports damage in the last segment that a repair does not take for a
// record that is not whole. It looks at that segment alone, up to the first damage that
// its decoder does not let pass.
func (x *exam) irreparable() bool {
	i := slices.IndexFunc(x.Damages, func(b Break) bool { return b.Last && complaint(&b) == "" && (b.Class != BadChain || b.Offset > 0) })
	return i >= 0 && x.Damages[i].Class != Torn && x.Damages[i].Class != Hidden
}

// replay follows the entries as ReadAll keeps them, from a segment on. It stops
// at what ReadAll does not read over.
func (x *exam) replay(snap Snapshot, first int) (EntryID, *Verdict) {
	end := EntryID{snap.Index, snap.Term}
	limit := Position{File: "", Offset: math.MaxInt64}
	var bad *Verdict
	seg := len(x.segments)
	for i := range x.Damages { // in the order of the log
		b := &x.Damages[i]
		if x.stop != nil && i >= *x.stop {
			break
		}
		if m := complaint(b); b.segment >= max(first, x.skipped) && m != "" {
			v := refuses(b, m)
			bad, seg, limit = &v, b.segment, b.Position
			break
		}
	}
	before := func(segment int, at Position) bool {
		return segment < seg || segment == seg && at.Offset < limit.Offset
	}
	for i, m := range x.snaps {
		if x.snapSegs[i] >= first && m.Index == snap.Index && m.Term != snap.Term && before(x.snapSegs[i], m.Position) {
			bad = &Verdict{Outcome: Refuses, cause: CauseSnapshot, Message: "wal: snapshot mismatch", At: &x.snaps[i].Position,
				Why: fmt.Sprintf("two snapshot records of index %d, of terms %d and %d", snap.Index, m.Term, snap.Term)}
			seg, limit = x.snapSegs[i], m.Position
			break
		}
	}
	for i := range x.runs {
		r := &x.runs[i]
		if r.segment < first || r.to.Index <= snap.Index || !before(r.segment, r.at) {
			continue
		}
		if from := max(r.from.Index, snap.Index+1); from > end.Index+1 {
			return end, &Verdict{Outcome: Refuses, cause: CauseEntries, At: &r.at, Lost: span(end.Index+1, from-1),
				Message: fmt.Sprintf("wal: slice bounds out of range, snapshot[Index: %d, Term: %d], current entry[Index: %d, Term: %d], len(ents): %d",
					snap.Index, snap.Term, r.from.Index, r.from.Term, end.Index-snap.Index),
				Why: span(end.Index+1, from-1).are() + " missing"}
		}
		end = r.to
	}
	return end, bad
}

// complaint is what ReadAll says of a record that its decoder let pass.
func complaint(b *Break) string {
	switch {
	case b.Class == Unknown:
		return "unexpected block type"
	case b.Class == Conflict:
		return "wal: conflicting metadata found"
	case b.Class == BadData:
		return "unmarshal should never fail"
	}
	return ""
}

func refuses(b *Break, message string) Verdict {
	return Verdict{Outcome: Refuses, Message: message, At: &b.Position, Lost: b.Lost, damage: b, Why: b.Why}
}

// first are the words of what a start does to the log, where more is to be said.
func (v *Verdict) first() string {
	if v.damage == nil {
		return ""
	}
	return v.Why + "; and then: "
}

// apply is what comes behind the start: entries up to the database's consistent
// index are not applied again, and that of a member's own announcement is
// among those that follow.
func (x *exam) apply(v Verdict) Verdict {
	db := x.Database
	if db == nil || !x.votesAlone() || db.ConsistentIndex <= v.replay.Index+1 {
		return v
	}
	tries := db.ConsistentIndex - v.replay.Index - 1
	if x.Segments == 0 {
		// A first start: before the leader's first entry there is one for the member, and
		// beside each announcement one for the cluster's version, which is not known then.
		if tries = (db.ConsistentIndex - 1) / 2; tries == 0 {
			return v
		}
	}
	first := v.first()
	v.Outcome, v.cause, v.Seconds = Silent, LogBehindDB, int64(tries)*publishSeconds //nolint:gosec // an index
	v.Why = first + fmt.Sprintf("the database has consistent index %d and the log that etcd has ends at %d: what is written next is not applied, the member's own "+
		"announcement included, so that it runs and answers nothing for about %d times %d s", db.ConsistentIndex, v.replay.Index, tries, publishSeconds)
	return v
}
