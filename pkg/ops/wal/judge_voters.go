package wal

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Causes of a verdict because nobody can be elected.
const (
	CauseSentEmpty = "database_from_peer_empty" // etcd takes an empty database for its own
	CauseGhosts    = "voters_not_started"       // too many that vote were added and never started
	CauseUnborn    = "no_members"               // neither log nor database has a member yet
)

// takesEmpty reports that etcd takes an empty database for its own. Behind a snapshot record
// that is one that a leader sent, or was about to: one of its own would not be let pass.
func (x *exam) takesEmpty(snap Snapshot) bool {
	return x.Database != nil && x.sent && x.Database.empty() && snap.Index > 0
}

// emptyWords begin what is said of that.
func (x *exam) emptyWords() string {
	taken := "in place of its own, which is DESTROYED by that"
	if x.missing {
		taken = "since there is no database"
	}
	return fmt.Sprintf("etcd takes %s, which is empty, %s: by it", filepath.Base(x.Database.Path), taken)
}

// nobody is what comes of a cluster without a member: who votes is taken from the
// database and from the entries that are applied to it, and from nowhere else (bootstrap
// in server/etcdserver/bootstrap.go), so that there is nobody to elect.
func (x *exam) nobody(snap Snapshot, v Verdict) Verdict {
	if !x.takesEmpty(snap) || v.Outcome == Refuses {
		return v
	}
	v.Why = v.first() + x.emptyWords() + " the cluster has no member, so that it runs, elects nobody and answers nothing"
	v.Outcome, v.cause = Silent, CauseSentEmpty
	return v
}

// ghosts finds a quorum that cannot be had without voters that were added and never
// started: such a one has no name in the database, which it tells of itself when it starts.
func (x *exam) ghosts(r *roll, v Verdict) Verdict {
	if v.Outcome == Refuses || !r.voters[x.Member] {
		return v
	}
	var never []string
	voters := 0
	for id, votes := range r.voters {
		if !votes {
			continue
		}
		voters++
		if id != x.Member && x.nameOf(id) == unnamed {
			never = append(never, id.String())
		}
	}
	quorum := voters/2 + 1
	if voters-len(never) >= quorum || len(never) == 0 {
		return v
	}
	slices.Sort(never)
	first := v.first()
	v.Outcome, v.cause = Silent, CauseGhosts
	v.Why = first + fmt.Sprintf("of the %d members that vote %d have to agree, and %s, added and never started, %s: without it nobody is elected, and nothing is answered",
		voters, quorum, strings.Join(never, ", "), map[bool]string{true: "is one of them", false: "are among them"}[len(never) == 1])
	return v
}

// unborn finds a member that was ended in the first moments of its life, when nothing was
// known to be committed yet. A start goes on with that log, and never writes what a
// first start does: who the members are (bootstrapRaft in server/etcdserver/bootstrap.go). So it
// has to be told by a leader.
func (x *exam) unborn(v Verdict) Verdict {
	db := x.Database
	if db == nil && x.bare || db != nil && (len(db.Members) > 0 || db.ConsistentIndex > 0) || x.state.Commit > 0 || v.Outcome == Refuses || v.Outcome == Silent {
		return v
	}
	has := v.first() + "the log has no entry"
	if v.replay.Index > 0 {
		has = v.first() + fmt.Sprintf("the log has entries up to %d, of which none is known to be committed", v.replay.Index)
	}
	v.Outcome, v.cause = NotKnown, CauseUnborn
	v.Why = has + ", and no database has a member: it was ended in the first moments of its life, before it had written who the members are, and a start does not make up for that. " +
		"One that joins others waits until their leader tells it; the only one, or the first of a new cluster, waits for ever and answers nothing"
	return v
}

// hintVoters says what to do where nobody can be elected.
func (x *exam) hintVoters(cause string) string {
	db := x.Database
	switch cause {
	case CauseUnborn:
		return "it has acknowledged nothing yet: if it does not serve, stop it, move its data directory away, and start it with the same flags once more"
	case CauseSentEmpty:
		return fmt.Sprintf("before anything is started, move %s out of its folder, and verify again: what is to be done is said then", db.Path)
	}
	restore := "`kvd snapshot restore FILE --data-dir NEW` of the newest snapshot there is"
	if db != nil && !db.empty() {
		restore = fmt.Sprintf("keep a copy of the data directory, then `kvd snapshot restore %s --skip-hash-check --data-dir NEW`", db.Path)
	}
	return "start what was added, with the peer URL that it was added with, an empty data directory and `--initial-cluster-state existing`, " +
		"and it has a leader; if that can no longer be done, or it was never meant to be: " + restore
}
