package ops

import (
	"fmt"
	"slices"
	"time"

	"kvd/pkg/ops/cluster"
)

// resolve finds out who is to go and who is to come, and how far an earlier run
// has got.
func (r *replacement) resolve(view cluster.View) error {
	record, err := r.journal.load()
	if err != nil {
		return err
	}
	if record != nil && r.over(record, view) {
		if err := r.journal.drop(); err != nil {
			return err
		}
		record = nil
	}
	if record != nil && !record.names(r.o.Member) {
		return r.c.refused("replacement_under_way", r.o.Member, fmt.Sprintf("a replacement of %s, begun %s, is not finished",
			record.label(), record.BegunAt.Format(time.RFC3339)),
			fmt.Sprintf("one at a time: finish it with kvd member replace %s; if it was given up, remove %s", record.label(), r.journal.path))
	}
	if record != nil {
		if record, err = r.adopt(record, view); err != nil {
			return err
		}
	}
	if record == nil {
		if record, err = r.begin(view); err != nil {
			return err
		}
	}
	r.record = record
	return r.newMember(view)
}

func (r *replaceRecord) label() string {
	if r.OldName != "" {
		return r.OldName
	}
	return r.OldID
}

// recordLife is how old a record may be that is still believed.
const recordLife = 7 * 24 * time.Hour

// over reports that a record speaks of something that is long done: the old member
// is gone, the new one votes, and either somebody else is to be replaced now, or
// the new one does not answer, so that it must be the one to be replaced.
func (r *replacement) over(record *replaceRecord, view cluster.View) bool {
	if _, there := view.MemberByID(record.oldID()); there {
		return false
	}
	i := slices.IndexFunc(view.Members, func(m cluster.Member) bool { return sameURLs(m.PeerURLs, record.PeerURLs) })
	if i < 0 {
		return time.Since(record.BegunAt) > recordLife
	}
	m := view.Members[i]
	if m.Name == "" || m.Learner != record.OldLearner {
		return false
	}
	return m.Status == nil || !record.names(r.o.Member) || time.Since(record.BegunAt) > recordLife
}

// adopt takes over what an earlier run had in mind. It returns nil where that had
// changed nothing yet and something else is wanted now.
func (r *replacement) adopt(record *replaceRecord, view cluster.View) (*replaceRecord, error) {
	wantsOther := (r.o.NewName != "" && r.o.NewName != record.NewName) ||
		(len(r.o.PeerURLs) > 0 && !sameURLs(r.o.PeerURLs, record.PeerURLs))
	old, there := view.MemberByID(record.oldID())
	begun := !there || slices.ContainsFunc(view.Members, func(m cluster.Member) bool { return m.ID != old.ID && sameURLs(m.PeerURLs, record.PeerURLs) })
	switch {
	case wantsOther && begun:
		return nil, r.c.refused("replacement_under_way", record.label(), fmt.Sprintf("its replacement by %s at %v has been begun", record.NewName, record.PeerURLs),
			"finish that one: leave out --peer-urls and --new-name, or give the same")
	case !begun:
		return nil, nil
	}
	r.old, r.oldThere = old, there
	if !there {
		r.old = cluster.Member{ID: record.oldID(), Name: record.OldName, Learner: record.OldLearner}
	}
	return record, nil
}

// begin takes the old member from the list.
func (r *replacement) begin(view cluster.View) (*replaceRecord, error) {
	old, err := view.FindMember(r.o.Member)
	if err != nil {
		// Two may have the name while one takes over from the other.
		same := slices.DeleteFunc(slices.Clone(view.Members), func(m cluster.Member) bool {
			return m.Name != r.o.Member || sameURLs(m.PeerURLs, r.o.PeerURLs)
		})
		if len(same) != 1 || r.o.Member == "" {
			return nil, r.notFound(err, view)
		}
		old = same[0]
	}
	r.old, r.oldThere = old, true
	record := &replaceRecord{ClusterID: cluster.FormatID(view.ID), BegunAt: time.Now().UTC(), OldID: cluster.FormatID(old.ID), OldName: old.Name,
		OldLearner: old.Learner, NewName: r.o.NewName, PeerURLs: r.o.PeerURLs, ClientURLs: r.o.ClientURLs}
	if record.NewName == "" {
		record.NewName = old.Name
	}
	if record.NewName == "" {
		return nil, r.c.usage("flag", "the old member never started and has no name", "give the new one a name with --new-name")
	}
	if len(record.PeerURLs) == 0 {
		record.PeerURLs = old.PeerURLs
	}
	if len(record.ClientURLs) == 0 && sameURLs(record.PeerURLs, old.PeerURLs) {
		record.ClientURLs = old.ClientURLs
	}
	if record.PeerURLs, err = r.c.checkPeerURLs(record.PeerURLs); err != nil {
		return nil, err
	}
	return record, nil
}

// newMember makes the newcomer of the record, and decides on the order.
func (r *replacement) newMember(view cluster.View) error {
	o := r.o.JoinOptions
	if len(o.ClientURLs) == 0 {
		o.ClientURLs = r.record.ClientURLs
	}
	n := &newcomer{c: r.c, o: o, name: r.record.NewName, peerURLs: r.record.PeerURLs, gone: r.old.ID, except: r.old.ID}
	r.n = n
	m, there := n.find(view.Members)
	r.newThere = there
	fresh := r.oldThere && !r.old.Learner && r.old.Status != nil && !overlap(r.old.PeerURLs, n.peerURLs)
	r.addFirst = r.oldThere && (there || fresh)
	if there && !m.Learner && r.oldThere && !r.ours(m) {
		return r.c.refused(cluster.CausePeerURLExists, r.o.Member, "the peer URL belongs to "+m.Label(), "give the new member a URL of its own")
	}
	if r.addFirst {
		n.gone = 0
	}
	if there {
		n.id = m.ID
	}
	return n.prepare(view)
}

// ours reports that the record on disk speaks of this member: a voter that is there
// beside the old one is only the newcomer if an earlier run has brought it in.
func (r *replacement) ours(m cluster.Member) bool {
	saved, err := r.journal.load()
	return err == nil && saved != nil && saved.same(r.record) && sameURLs(m.PeerURLs, saved.PeerURLs)
}
