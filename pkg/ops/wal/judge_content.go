package wal

import (
	"fmt"

	"github.com/coreos/go-semver/semver"

	"go.etcd.io/etcd/api/v3/version"
)

// Causes of a verdict because of what the database says of the cluster, whatever the log is.
const (
	CauseNewer    = "newer_version"     // a newer etcd has written it
	CauseLearners = "too_many_learners" // more than --max-learners
	CauseNoVoter  = "no_voter"          // all members are learners

	CauseOldRestore = "old_restore" // a restore by etcdctl 3.4 or before
)

// maxLearners is how many learners a start lets pass (DefaultMaxLearners in server/embed/
// config.go) where --max-learners does not say otherwise.
const maxLearners = 1

// keepsCause reports a verdict whose finding is not about the damage that a start meets
// on the way.
func (v *Verdict) keepsCause() bool {
	switch v.cause {
	case NotAMember, CauseNewer, CauseLearners, CauseNoVoter, CauseOldRestore, CauseSentEmpty, CauseGhosts, CauseUnborn:
		return true
	}
	return false
}

// ends is a refusal behind what a start has done to the log already.
func (v *Verdict) ends(cause, message, format string, args ...any) Verdict {
	return Verdict{Outcome: Refuses, cause: cause, Message: message, At: v.At, Lost: v.Lost, Begins: v.Begins, damage: v.damage, replay: v.replay,
		Why: v.first() + fmt.Sprintf(format, args...)}
}

// newerStorage is what a start says of a database of a newer etcd before it opens the log
// (Validate in server/storage/schema/schema.go). One without a storage version is from 3.5
// or before, and is let in.
func (x *exam) newerStorage() (Verdict, bool) {
	if x.Database == nil || x.missing {
		return Verdict{}, false
	}
	v, newer := newerThanOwn(x.Database.StorageVersion)
	if !newer {
		return Verdict{}, false
	}
	return Verdict{Outcome: Refuses, cause: CauseNewer, Message: fmt.Sprintf("version %q is not supported", v),
		Why: fmt.Sprintf("the database's storage version is %d.%d: a newer etcd has written it, and %s does not read it", v.Major, v.Minor, own())}, true
}

// newerCluster is the same by the cluster's version, once the log was opened
// (MustDetectDowngrade in server/etcdserver/version/downgrade.go).
func (x *exam) newerCluster(v Verdict) (Verdict, bool) {
	if x.Database == nil {
		return v, false
	}
	c, newer := newerThanOwn(x.Database.ClusterVersion)
	if !newer {
		return v, false
	}
	return v.ends(CauseNewer, "invalid downgrade; server version is lower than determined cluster version",
		"the cluster's version in the database is %d.%d, and %s takes no part in a cluster that is newer than itself", c.Major, c.Minor, own()), true
}

func newerThanOwn(s string) (*semver.Version, bool) {
	v, err := semver.NewVersion(s)
	if err != nil {
		return nil, false
	}
	o := semver.New(version.Version)
	return v, v.Major > o.Major || v.Major == o.Major && v.Minor > o.Minor
}

// own is the version whose start is judged.
func own() string {
	v := semver.New(version.Version)
	return fmt.Sprintf("etcd %d.%d", v.Major, v.Minor)
}

// tooManyLearners is ValidateMaxLearnerConfig at the end of a bootstrap. A cluster that is
// at work with more has its --max-learners; but of one of 3.5 it is told all the same, as
// they may be voters there, and an update to 3.7 ends on them.
func (x *exam) tooManyLearners(v Verdict) (Verdict, bool) {
	db := x.Database
	if db == nil || len(db.Members)-db.voters() <= maxLearners || x.Live != "" && !db.old() {
		return v, false
	}
	return v.ends(CauseLearners, "membership: too many learner members in cluster", "%d of the %d members in the database are learners, and a start takes %d unless --max-learners says otherwise%s",
		len(db.Members)-db.voters(), len(db.Members), maxLearners, x.staleLearners()), true
}

// noVoter is raft's refusal of a cluster in which nobody votes (Restore in raft/confchange).
func (x *exam) noVoter(v Verdict) (Verdict, bool) {
	db := x.Database
	if db == nil || len(db.Members) == 0 || db.voters() > 0 {
		return v, false
	}
	return v.ends(CauseNoVoter, "removed all voters", "by the database all members are learners, so that nobody votes%s", x.staleLearners()), true
}

// orOwn is a refusal because of who votes by the database. One of 3.5 or before may be
// wrong in that, and its own version does not go by it.
func (x *exam) orOwn(snap Snapshot, v, refusal Verdict) Verdict {
	if x.Database.old() {
		x.doubtful = true
		own := x.appliedBehind(snap, v)
		x.Own = &own
	}
	return refusal
}

// old reports a database that no etcd from 3.6 on has run on.
func (d *Database) old() bool { return d.StorageVersion == "" }

// staleLearners says how voters became learners: etcd up to 3.5 goes by another store
// than the database.
func (x *exam) staleLearners() string {
	if !x.Database.old() {
		return ""
	}
	return "; etcd 3.5 does not go by the database: members that were promoted under 3.5.1 to 3.5.19 vote, and are learners in it (etcd issue 19557)"
}

// hintContent says what to do about them: nothing is damaged.
func (x *exam) hintContent(cause string) string {
	const whole = "nothing is damaged, so restore and replace nothing; "
	db := x.Database
	switch {
	case cause == CauseOldRestore:
		return fmt.Sprintf("restore the same snapshot once more, with `kvd snapshot restore FILE --data-dir NEW`; if the file is gone: `kvd snapshot restore %s --skip-hash-check --data-dir NEW`", db.Path)
	case cause == CauseNewer:
		return fmt.Sprintf(whole+"start the version of etcd that wrote it, or a later one; to go back, take the running cluster down with `etcdctl downgrade enable %s`, and then one member at a time; "+
			"a stopped member's files, if need be, with that newer version's `etcdutl migrate --data-dir DIR --target-version %[1]s`", own()[len("etcd "):])
	case db.old():
		return whole + "start the version of etcd 3.5 that wrote it, bring all members to the newest patch release of 3.5 (3.5.26 or later), which puts the database right at its start, then go on to 3.6, and only then to 3.7"
	case cause == CauseLearners:
		return fmt.Sprintf(whole+"start it with `--max-learners=%d`, as it was run before; then `kvd member promote` or `kvd member remove` those that are left over", len(db.Members)-db.voters())
	}
	return fmt.Sprintf("the others, if there are any that vote, do without it: `kvd member replace %s`, asking one of them; else keep a copy of the data directory, then `kvd snapshot restore %s --skip-hash-check --data-dir NEW`",
		x.nameOf(x.Member), db.Path)
}

// oldRestore finds a directory that `etcdctl snapshot restore` of 3.4 or before has made, and
// that nothing has run on since. It leaves the members of the snapshot in the database and
// writes its own into a .snap file, by which 3.4 goes and 3.7 does not. A restore begins a
// log with an entry of term 1 for each member, and a snapshot record behind them.
func (x *exam) oldRestore(snap Snapshot, v Verdict) Verdict {
	db := x.Database
	if db == nil || !db.old() || len(db.Members) == 0 || snap.Index == 0 || snap.Term != 1 || v.replay.Index != snap.Index || v.Outcome == Refuses {
		return v
	}
	restored := map[ID]bool{}
	for _, e := range x.members {
		if e.change == "add" && e.id.Index <= snap.Index {
			restored[e.member] = true
		}
	}
	same := len(restored) == len(db.Members)
	for _, m := range db.Members {
		same = same && restored[m.ID]
	}
	if len(restored) == 0 || same {
		return v
	}
	first := v.first()
	v.Outcome, v.cause = Silent, CauseOldRestore
	v.Why = first + fmt.Sprintf("the log was begun by a restore for a cluster of %d, and the database has the %d members of the snapshot: an etcdctl of 3.4 or before has restored it, which keeps its members where 3.7 does not read; "+
		"it waits for a leader that those in the database would have to elect", len(restored), len(db.Members))
	return v
}
