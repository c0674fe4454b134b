package wal

import (
	"fmt"
	"slices"
)

// Backend is what the database beside a log says, and what the log has to fit.
type Backend struct {
	ConsistentIndex uint64 // of the last entry applied to it; 0: nothing was
	Term            uint64 // of that entry
	Members         []ID   // nil: not known
}

// Peers is what the rest of the cluster says.
type Peers struct {
	Cluster ID
	Commit  uint64 // the highest index that any of them knows to be committed
}

// Mismatch is something that does not fit, and what it means.
type Mismatch struct {
	Cause string `json:"cause"` // stable, one of the constants
	Says  string `json:"says"`
	Hint  string `json:"hint,omitempty"`
}

// Causes of a Mismatch.
const (
	NoWAL        = "no_wal"         // a used database, and no log
	LogBehindDB  = "log_behind_db"  // the log ends before what was applied
	TermConflict = "term_conflict"  // log and database disagree about one entry's term
	DBBehindSnap = "db_behind_snap" // the log begins to count behind what was applied
	NotAMember   = "not_a_member"   // the log's member is not in the database
	OtherCluster = "other_cluster"  // the log is of another cluster than the peers
	LogBehind    = "log_behind"     // the log ends before what the peers know to be committed
	HiddenData   = "hidden_records" // something is written behind the end of the log
)

const (
	hintOneOfMany = "in a cluster: remove this member and add it again with an empty data directory"
	hintFromDB    = "the only member: `kvd snapshot restore member/snap/db --skip-hash-check --data-dir NEW`"
)

// Judge says what does not fit between a log and the database beside it. A nil
// log is none at all. What is behind a sound pair is not much: the log goes on
// behind the consistent index by what was applied since the last commit of the
// database, 100 ms or 10,000 changes at most, and by what is not yet applied.
func Judge(log *Info, db Backend) []Mismatch {
	if log == nil {
		if db.ConsistentIndex == 0 {
			return nil
		}
		return []Mismatch{{NoWAL, fmt.Sprintf("there is no log, but the database has consistent index %d: "+
			"etcd would begin a new log at index 1 and skip every entry up to %d, its own included, so that it runs and answers nothing",
			db.ConsistentIndex, db.ConsistentIndex), hintFromDB + "; " + hintOneOfMany}}
	}
	var out []Mismatch
	add := func(cause, hint, format string, args ...any) {
		out = append(out, Mismatch{cause, fmt.Sprintf(format, args...), hint})
	}
	if log.Last.Index < db.ConsistentIndex {
		add(LogBehindDB, hintFromDB+"; "+hintOneOfMany, "the log ends at index %d, term %d, but the database has consistent index %d: "+
			"%s gone from the log, so one of the two is from another time", log.Last.Index, log.Last.Term,
			db.ConsistentIndex, span(log.Last.Index+1, db.ConsistentIndex).are())
	}
	if log.Last.Index == db.ConsistentIndex && db.Term != 0 && log.Entries > 0 && log.Last.Term != db.Term {
		add(TermConflict, hintOneOfMany, "entry %d is of term %d in the log and of term %d in the database", log.Last.Index, log.Last.Term, db.Term)
	}
	if log.Newest.Index > db.ConsistentIndex {
		add(DBBehindSnap, "put the newer database back, or let etcd find its snapshot; "+hintOneOfMany,
			"the newest snapshot record is of index %d, but the database has consistent index %d: etcd needs member/snap/%016x.snap.db, or does not start",
			log.Newest.Index, db.ConsistentIndex, log.Newest.Index)
	}
	if db.Members != nil && log.Member != 0 && !slices.Contains(db.Members, log.Member) {
		add(NotAMember, hintOneOfMany, "the log is member %s's, who is not among the members in the database: %v", log.Member, db.Members)
	}
	if log.Hidden != nil {
		add(HiddenData, "copy the WAL folder before anything else: etcd fills it with zeros from there on when it starts, without a word",
			"by its format the log ends at %s, but at offset %d there is data again", log.End, log.Hidden.Offset)
	}
	return out
}

// JudgeAmong says what does not fit between a log and the rest of its cluster.
// A log that ends before the others' commit index is usual for a member that was
// down; one that acknowledged more than it has was put back from a copy, or lost
// its disk's last writes, and only the others can know.
func JudgeAmong(log Info, peers Peers) []Mismatch {
	var out []Mismatch
	if peers.Cluster != 0 && log.Cluster != peers.Cluster {
		return append(out, Mismatch{OtherCluster, fmt.Sprintf("the log is of cluster %s, the peers are of cluster %s: they refuse each other (\"cluster ID mismatch\")",
			log.Cluster, peers.Cluster), "a restored snapshot begins a new cluster; to bring this member into the other one, remove it there and add it with an empty data directory"})
	}
	if log.Last.Index < peers.Commit {
		out = append(out, Mismatch{LogBehind, fmt.Sprintf("the log ends at index %d, term %d, and the cluster has committed %d: %s missing. "+
			"A member that was down catches up; one that had them before (an old copy put back, lost writes) panics with \"tocommit(%d) is out of range [lastIndex(%d)]\"",
			log.Last.Index, log.Last.Term, peers.Commit, span(log.Last.Index+1, peers.Commit).are(), peers.Commit, log.Last.Index),
			"if it panics it cannot be repaired: remove it and add it again with an empty data directory"})
	}
	return out
}
