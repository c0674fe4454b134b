package wal

import (
	"fmt"
	"slices"
)

// memberEntry is an entry about a member: a change of members, or what a member that
// has started tells of itself.
type memberEntry struct {
	id     EntryID
	at     Position
	member ID
	change string // see Member; "" is that it tells of itself
	name   string
}

// memberEntry remembers an entry if it is about a member. There are few: one for each
// start and change of a member.
func (x *exam) memberEntry(r *Record, q *Request) {
	for n := len(x.members); n > 0 && x.members[n-1].id.Index >= r.Entry.Index; n-- {
		x.members = x.members[:n-1] // replaced by a later leader
	}
	if q.Type == MemberAttrType || q.Type == ConfChangeV1 {
		x.members = append(x.members, memberEntry{EntryID{r.Entry.Index, r.Entry.Term}, r.Position, q.Member.ID, q.Member.Change, q.Member.Name})
	}
}

// standing is what the log's member is to the cluster that the database is of, once
// the entries that are known to be committed are applied.
type standing int

const (
	unknownStanding standing = iota
	isMember
	wasRemoved
	isAlien // neither a member nor one that was
)

// removedText is what etcd ends with that finds its own removal, in its log (applyEntries
// in server/etcdserver/server.go) or told by a peer, which answers 410 to who was removed
// (errMemberRemoved in server/etcdserver/api/rafthttp).
const removedText = "the member has been permanently removed from the cluster"

// roll is who belongs to the cluster, at some entry.
type roll struct {
	voters  map[ID]bool // the members: true for those that vote
	removed map[ID]bool
}

// roll is what the database says.
func (d *Database) roll() roll {
	r := roll{map[ID]bool{}, map[ID]bool{}}
	if d == nil {
		return r
	}
	for _, m := range d.Members {
		r.voters[m.ID] = !m.Learner
	}
	for _, id := range d.removed {
		r.removed[id] = true
	}
	return r
}

func (r *roll) has(id ID) bool { _, ok := r.voters[id]; return ok }

// change follows a change of members.
func (r *roll) change(e *memberEntry) {
	switch e.change {
	case "add", "add_learner", "promote":
		if !r.removed[e.member] && (e.change != "promote" || r.has(e.member)) {
			r.voters[e.member] = e.change != "add_learner"
		}
	case "remove":
		if r.has(e.member) {
			delete(r.voters, e.member)
			r.removed[e.member] = true
		}
	}
}

// applyMembers follows the entries about members as a start applies them: all behind
// the snapshot record, those that the database has already without a change to it (apply
// and applyConfChange in server/etcdserver/server.go; RaftCluster in
// server/etcdserver/api/membership). over is that the process ends at one of them.
func (x *exam) applyMembers(snap Snapshot, v Verdict) (_ Verdict, over bool) {
	if x.Database == nil && x.bare || x.Member == 0 {
		return v, false
	}
	r := x.Database.roll()
	limit := min(x.state.Commit, v.replay.Index)
	if x.Database != nil && r.has(x.Member) && x.votesAlone() {
		limit = v.replay.Index // the only voter commits all it has
	}
	for i := range x.members {
		e := &x.members[i]
		if e.id.Index <= snap.Index || e.id.Index > limit {
			continue
		}
		refuses := Verdict{Outcome: Refuses, cause: NotAMember, At: &e.at, Lost: v.Lost, Begins: &snap, damage: v.damage, replay: v.replay}
		fresh := x.Database == nil || e.id.Index > x.Database.ConsistentIndex
		switch {
		case e.change == "" && !r.has(e.member) && !r.removed[e.member]:
			x.standing = isAlien
			refuses.Message = "failed to update; member unknown"
			refuses.Why = v.first() + fmt.Sprintf("entry %d is of member %s, which the database does not know: it is another cluster's, or of a time before that member was added", e.id.Index, e.member)
			if x.takesEmpty(snap) {
				refuses.cause = CauseSentEmpty
				refuses.Why = v.first() + fmt.Sprintf("%s the cluster has no member, so that it ends at entry %d, which is of member %s", x.emptyWords(), e.id.Index, e.member)
			}
			return refuses, true
		case e.change == "remove" && e.member == x.Member && (!fresh || r.has(e.member)):
			x.standing = wasRemoved
			refuses.Message = removedText
			refuses.Why = v.first() + fmt.Sprintf("entry %d removes this member, %s, from the cluster: it starts, and ends again", e.id.Index, e.member)
			return refuses, true
		case fresh:
			r.change(e)
		}
	}
	return x.stand(&r, snap, v), false
}

// stand judges a member by the members that the cluster has in the end.
func (x *exam) stand(r *roll, snap Snapshot, v Verdict) Verdict {
	first := v.first()
	switch {
	case len(r.voters) == 0:
		return x.nobody(snap, v)
	case r.has(x.Member):
		x.standing = isMember
		return x.ghosts(r, v)
	case r.removed[x.Member]:
		x.standing = wasRemoved
		v.Why = first + fmt.Sprintf("this member, %s, was removed from the cluster: it runs, and nobody takes part with it; it ends if one of the others is reached, with %q", x.Member, removedText)
	default:
		x.standing = isAlien
		v.Why = first + fmt.Sprintf("the log is member %s's, and the database does not know it: it is no voter there, so that it never has a leader", x.Member)
	}
	v.Outcome, v.cause = Silent, NotAMember
	return v
}

// isLearner reports that the log's member is one that does not vote, by the database.
func (x *exam) isLearner() bool {
	return slices.ContainsFunc(x.Database.Members, func(m DatabaseMember) bool { return m.ID == x.Member && m.Learner })
}

// votesAlone reports that nobody else votes, by the database: such a member makes itself
// the leader and commits all it has. A learner never does, and without a log it is not
// known which of the two a member is.
func (x *exam) votesAlone() bool {
	db := x.Database
	if x.doubtful {
		return len(db.Members) == 1
	}
	return db.voters() == 1 && (len(db.Members) == 1 || x.Member != 0 && !x.isLearner())
}

// othersVote reports that somebody else may vote, by the database: only those know what
// this member had acknowledged.
func (x *exam) othersVote() bool {
	return (x.Database.voters() > 0 || x.doubtful) && !x.votesAlone()
}

// standByDB is the standing of a member whose start does not come as far as the entries,
// by the database alone, and what the log adds to it.
func (x *exam) standByDB() {
	db := x.Database
	if x.standing != unknownStanding || db == nil || len(db.Members) == 0 || x.Member == 0 {
		return
	}
	switch {
	case slices.ContainsFunc(db.Members, func(m DatabaseMember) bool { return m.ID == x.Member }),
		slices.ContainsFunc(x.members, func(e memberEntry) bool {
			return e.member == x.Member && e.id.Index > db.ConsistentIndex && (e.change == "add" || e.change == "add_learner")
		}):
		x.standing = isMember
	case slices.Contains(db.removed, x.Member):
		x.standing = wasRemoved
	default:
		x.standing = isAlien
	}
}

// ownRemoval says which entry from this index on removes the log's own member: those are
// not known to be committed, so that a start does not apply them.
func (x *exam) ownRemoval(from uint64) string {
	for _, e := range slices.Backward(x.members) {
		if e.id.Index >= from && e.change == "remove" && e.member == x.Member && x.standing == isMember {
			return fmt.Sprintf("; entry %d removes this member, %s: if the others have committed it, this one ends with %q as soon as it reaches one of them", e.id.Index, x.Member, removedText)
		}
	}
	return ""
}

// unnamed stands for the name of a member that is not known.
const unnamed = "NAME"

// nameOf is how a member is called, as far as database and log know; unnamed if not.
func (x *exam) nameOf(id ID) string {
	if db := x.Database; db != nil {
		for _, m := range db.Members {
			if m.ID == id && m.Name != "" {
				return m.Name
			}
		}
	}
	for _, e := range slices.Backward(x.members) {
		if e.member == id && e.name != "" {
			return e.name
		}
	}
	return unnamed
}
