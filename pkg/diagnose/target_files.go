package diagnose

import (
	"context"
	"fmt"

	"github.com/coreos/go-semver/semver"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/snapshot"
	"kvd/pkg/ops/wal"
)

// readChanges reads the changes of members in a log that are committed, up to a damage,
// of which the verification tells.
func (d *Dir) readChanges(ctx context.Context) error {
	o := wal.DefaultDumpOptions()
	o.Types = []string{string(wal.ConfChangeV1)}
	_, err := wal.Dump(ctx, d.Log.Dir, o, func(l *wal.Line) error {
		if m, ok := l.Body.(*wal.Member); ok && l.Index <= d.Log.Numbers.Commit {
			d.Changes = append(d.Changes, *m)
		}
		return nil
	})
	if fault.KindOf(err) == fault.Damage {
		return nil
	}
	return err
}

// The words of wal.Member.Change.
const (
	changeRemove     = "remove"
	changeAdd        = "add"
	changePromote    = "promote"
	changeAddLearner = "add_learner"
)

// standsAs is what a member is to its cluster.
type standsAs int

const (
	unknownMember standsAs = iota
	isVoter
	isLearner
	isGone
)

// byLog is what the last change of each member in the log has made of it.
func (d *Dir) byLog() map[wal.ID]standsAs {
	out := map[wal.ID]standsAs{}
	for _, m := range d.Changes {
		switch m.Change {
		case changeRemove:
			out[m.ID] = isGone
		case changeAdd, changePromote:
			out[m.ID] = isVoter
		case changeAddLearner:
			out[m.ID] = isLearner
		}
	}
	return out
}

// updateStored judges what the members' databases say. etcd 3.5 keeps the members in two
// stores and goes by the older one, which the member list shows as well; 3.6 goes by the
// database. Where the two differ, an update brings back who was removed, and makes a
// learner of a voter.
func (in *Input) updateStored(add addFunc, to *semver.Version) {
	for _, s := range in.stored() {
		c := s.v.Content
		if c == nil || s.v.Verdict == snapshot.NotRestorable {
			continue
		}
		if c.Downgrade != nil && c.Downgrade.Enabled && !in.goesDown(to) {
			add(Critical, s.path, "a downgrade to "+c.Downgrade.TargetVersion+" is under way", s.path, c.Downgrade.TargetVersion, "etcdctl downgrade cancel")
		}
		v, ok := parse(c.ClusterVersion)
		if !ok {
			continue
		}
		stepFrom(add, s.path, v, to, s.path)
		stored, ok := parseStorage(c.StorageVersion)
		switch of := orNone(c.StorageVersion); { // the cluster's version is that of its oldest member, which so has made the update
		case v.Minor < 6 || !later(to, v) || ok && !later(v, stored):
		case v.Minor == 6:
			add(Warning, s.path, "the storage is of version "+of+" and the cluster of "+c.ClusterVersion+": the one follows the other within seconds, but up to 3.6.4 not where it was made before 3.5 (etcd issue 20495)", s.path, of,
				"kvd status  # shows the storage of a member that runs; where it stays behind: update to 3.6.5 or later first")
		default:
			add(Critical, s.path, "the storage is of version "+of+" and the cluster of "+c.ClusterVersion+": the one follows the other within seconds of the last member's update, and has not yet", s.path, of,
				"start it with "+minor(v)+" and wait until `kvd status` shows that as its storage")
		}
		if v.Minor == 5 && to.Minor >= 6 {
			in.twoStores(add, s, c.Members)
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "3.5 or before"
	}
	return s
}

// twoStores compares the members in a database of 3.5 with the member list of the running
// cluster and with the changes in the log, as far as there are any.
func (in *Input) twoStores(add addFunc, s storedFile, members []snapshot.Member) {
	const first = "update all members to 3.5.26 or later first, and wait until they are well"
	logged := map[wal.ID]standsAs{}
	if s.dir != nil {
		logged = s.dir.byLog()
	}
	for _, m := range members {
		who := m.Name
		if who == "" {
			who = wal.ID(m.ID).String()
		}
		is, source := logged[wal.ID(m.ID)], "changes in the log"
		if in.has(NeedView) {
			is, source = in.stands(uint64(m.ID)), "member list"
		}
		switch {
		case is == isGone:
			add(Critical, s.path, fmt.Sprintf("%s was removed and is still in the database: 3.6 goes by that, and has a voter again that never answers (etcd issue 20967)", who), source, "removed", first)
		case is == isVoter && m.Learner:
			add(Critical, s.path, fmt.Sprintf("%s is a voter, and a learner in the database: 3.6 goes by that, and where there are two the member does not start (etcd issue 19557)", who), source, "voter", first)
		case is == unknownMember && m.Learner:
			add(Warning, s.path, fmt.Sprintf("%s is a learner in the database; if it was promoted meanwhile, 3.6 makes a learner of it again (etcd issue 19557)", who), s.path, "learner",
				"kvd diagnose --endpoints ENDPOINT --snapshot FILE --target VERSION  # compare it with the member list", first)
		}
	}
}

// stands is what the running cluster's list says of a member.
func (in *Input) stands(id uint64) standsAs {
	for _, m := range in.view().Members {
		switch {
		case m.ID != id:
		case m.Learner:
			return isLearner
		default:
			return isVoter
		}
	}
	return isGone
}
