package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/wal"
)

// DirLine is one data directory beside others.
type DirLine struct {
	Path            string  `json:"path"`
	Member          string  `json:"member_id"`
	Name            string  `json:"name,omitempty"`
	Cluster         string  `json:"cluster_id"` // empty: not known, as where there is no log
	Term            uint64  `json:"last_term"`
	Last            uint64  `json:"last_index"`
	Commit          uint64  `json:"commit_index"`
	ConsistentIndex *uint64 `json:"consistent_index,omitempty"`
	Revision        *int64  `json:"revision,omitempty"`
	Starts          string  `json:"outcome"` // as of wal.Outcome, or no_log
	Newest          bool    `json:"newest"`
}

// noLog stands in place of an outcome for a directory with nothing in it.
const noLog = "no_log"

// orEmpty is an ID, of which 0 is none.
func orEmpty(id wal.ID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

func further(a, b DirLine) bool {
	return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Last, b.Last)) > 0
}

// usable reports a directory on which a start loses nothing.
func (d *Dir) usable() bool {
	o := d.verdict().Outcome
	return (o == wal.Starts || o == wal.Repairs) && !d.damagedDB()
}

// name is the member's own, as its database has it.
func (d *Dir) name() string {
	if d.Log.Database == nil {
		return ""
	}
	for _, m := range d.Log.Database.Members {
		if m.ID == d.Log.Member {
			return m.Name
		}
	}
	return ""
}

// checkDirs holds directories against each other and against the running cluster.
func checkDirs() Check {
	return Check{
		Name: "directories", Asks: "do the directories belong together, and to the cluster?",
		IDs:   []string{"KVD-CORRUPT-002", "KVD-RAFT-008", "KVD-RAFT-011", "KVD-RAFT-012", "KVD-SPACE-001", "KVD-CORRUPT-001"},
		Needs: []Need{NeedDirs, NeedCluster},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			for i := range in.Dirs {
				d := &in.Dirs[i]
				if d.Log == nil {
					continue
				}
				out = append(out, in.amongPeers(d)...)
				out = append(out, in.restoredAlone(d)...)
				out = append(out, d.unstarted()...)
				out = append(out, d.alarms()...)
			}
			out = append(out, in.behind()...)
			out = append(out, in.apart()...)
			out = append(out, in.forked()...)
			return out, fmt.Sprintf("%s looked at", counted(len(in.Dirs), "directory"))
		},
	}
}

// amongPeers compares a log with what the running members know.
func (in *Input) amongPeers(d *Dir) []Finding {
	v := in.view()
	if v.ID == 0 || d.Holder != "" || d.Log.Cluster == 0 {
		return nil
	}
	var commit uint64
	for _, m := range v.Answered() {
		commit = max(commit, m.Status.RaftIndex)
	}
	var out []Finding
	for _, x := range wal.JudgeAmong(wal.Info{Metadata: d.Log.Metadata, Last: d.Log.Numbers.Last}, wal.Peers{Cluster: wal.ID(v.ID), Commit: commit}) {
		f := Finding{ID: "KVD-RAFT-011", Severity: Warning, Subject: d.Path, Summary: x.Says, Remedy: []string{x.Hint},
			Evidence: append(d.numbers(), Evidence{What: "committed by the running members", Value: float64(commit), Unit: Index, Source: "status", At: v.At})}
		if x.Cause == wal.OtherCluster {
			f.ID, f.Severity = "KVD-RAFT-012", Critical
		} else {
			f.Remedy = []string{"kvd member replace " + cmp.Or(d.name(), d.Log.Member.String()) + "  # if it panics when it is started: that cannot be repaired"}
			switch running := in.runsElsewhere(d); {
			case running != "":
				f.Summary = fmt.Sprintf("it looks like a copy: %s answers, and nobody is seen to have this directory open; it ends at entry %d, and %d are committed", running, d.Log.Numbers.Last.Index, commit)
				f.Remedy = []string{"start nothing on it: it would be a second member of the same ID, and votes what the first has not; keep it as long as somebody may miss it"}
			case v.QuorumLost():
				f.Remedy = []string{"bring back a quorum first, as KVD-RAFT-002 says: nobody can be replaced without one"}
			}
		}
		out = append(out, f)
	}
	return out
}

// runsElsewhere names the member that a directory is of, if it answers: nobody has the
// directory open.
func (in *Input) runsElsewhere(d *Dir) string {
	for _, m := range in.view().Answered() {
		if wal.ID(m.ID) == d.Log.Member {
			return name(m)
		}
	}
	return ""
}

// logBehind reports a directory of a member whose log ends before what the others have
// committed: a reason for it to be down.
func (in *Input) logBehind(id uint64) bool {
	for i := range in.Dirs {
		d := &in.Dirs[i]
		if d.Log != nil && uint64(d.Log.Member) == id && slices.ContainsFunc(in.amongPeers(d), func(f Finding) bool { return f.ID == "KVD-RAFT-011" }) {
			return true
		}
	}
	return false
}

// unstarted looks for voters in the database's member list that never started.
func (d *Dir) unstarted() []Finding {
	db := d.Log.Database
	if db == nil || db.Unread != "" {
		return nil
	}
	voters, started := 0, 0
	var never []string
	for _, m := range db.Members {
		switch {
		case m.Learner:
		case m.Name == "":
			voters, never = voters+1, append(never, m.ID.String())
		default:
			voters, started = voters+1, started+1
		}
	}
	if len(never) == 0 || voters == 1 {
		return nil
	}
	quorum := voters/2 + 1
	f := Finding{ID: "KVD-RAFT-008", Severity: Warning, Subject: strings.Join(never, ", "),
		Summary: fmt.Sprintf("by the database in %s, %s was added and never started, and counts: the quorum is %d of %d", d.Path, strings.Join(never, ", "), quorum, voters),
		Evidence: []Evidence{{What: "voters", Value: float64(voters), Unit: Count, Source: db.Path}, {What: "of them have started", Value: float64(started), Unit: Count, Source: db.Path},
			{What: "quorum", Value: float64(quorum), Unit: Count, Source: db.Path}},
		Remedy: []string{"start it, with its peer URLs and --initial-cluster-state=existing"}}
	if started < quorum {
		f.Severity = Critical
		f.Summary += fmt.Sprintf("; those that have started are %d: a start waits for it and answers nothing, and no removal gets through", started)
		f.Remedy = append(f.Remedy, fmt.Sprintf("kvd snapshot restore %s --skip-hash-check --data-dir NEW  # or begin anew from the data", db.Path))
	}
	return []Finding{f}
}

// alarms are those that a start raises again.
func (d *Dir) alarms() []Finding {
	if d.DB == nil || d.DB.Content == nil {
		return nil
	}
	var out []Finding
	for _, a := range d.DB.Content.Alarms {
		f := Finding{ID: "KVD-SPACE-001", Severity: Critical, Subject: d.Path, Summary: fmt.Sprintf("the alarm NOSPACE of member %s is stored in it: a start raises it again, and takes no writes", a.MemberID),
			Evidence: []Evidence{{What: "alarm", Text: a.Type + " of " + a.MemberID.String(), Source: d.DB.File}, {What: "file", Value: float64(d.DB.Content.InUseBytes + d.DB.Content.FreeBytes), Unit: Bytes, Source: d.DB.File}},
			Remedy:   []string{"kvd alarm recover --dry-run  # once it is started"}, ExplainedBy: []string{"KVD-SPACE-005"}}
		if a.Type == cluster.AlarmCorrupt {
			f.ID, f.ExplainedBy = "KVD-CORRUPT-001", nil
			f.Summary = fmt.Sprintf("the alarm CORRUPT for member %s is stored in it: a start raises it again, and takes no writes", a.MemberID)
			f.Remedy = []string{"kvd diagnose --hash  # once the members are started"}
		}
		out = append(out, f)
	}
	return out
}

// apart compares the databases of each cluster: one finding for it, with the fewest
// of them as its subject.
func (in *Input) apart() []Finding {
	of := map[wal.ID][]*Dir{}
	var order []wal.ID
	for i := range in.Dirs {
		d := &in.Dirs[i]
		if d.DB == nil || d.DB.Content == nil || d.Log == nil {
			continue
		}
		if of[d.Log.Cluster] == nil {
			order = append(order, d.Log.Cluster)
		}
		of[d.Log.Cluster] = append(of[d.Log.Cluster], d)
	}
	var out []Finding
	for _, id := range order {
		if f, differ := judgeApart(of[id]); differ {
			out = append(out, f)
		}
	}
	return out
}

// compare says whether two databases of a cluster can be compared, and whether they
// hold different data. Equal entries lead to equal revisions; and what there is at a
// revision is the same everywhere, but that hashes compare at one compaction only.
func compare(a, b *Dir) (comparable, differ bool) {
	x, y := a.DB.Content, b.DB.Content
	switch {
	case x.ConsistentIndex == y.ConsistentIndex && x.Revision != y.Revision:
		return true, true
	case x.Revision == y.Revision && x.Digests.KV.CompactRevision == y.Digests.KV.CompactRevision:
		return true, x.Digests.KV.Hash != y.Digests.KV.Hash
	}
	return false, false
}

func judgeApart(all []*Dir) (Finding, bool) {
	var odd, some, files []string
	revisions := map[int64]bool{}
	for _, a := range all {
		others, differ := 0, 0
		for _, b := range all {
			is, other := compare(a, b)
			if is && a != b {
				others++
			}
			if other {
				differ++
				revisions[b.DB.Content.Revision] = true
			}
		}
		if differ > 0 {
			some, files = append(some, a.Path), append(files, a.DB.File)
		}
		if 2*differ > others+1 { // of those that it can be compared with, and itself
			odd = append(odd, a.Path)
		}
	}
	if len(some) == 0 {
		return Finding{}, false
	}
	f := Finding{ID: "KVD-CORRUPT-002", Severity: Critical, Subject: list(odd), Summary: list(odd) + " holds other data than the rest",
		Remedy: []string{"kvd member replace NAME  # rebuild it from the rest, with an empty data dir: no restore"}}
	if len(odd) == 0 || len(odd) == len(some) {
		f.Subject, f.Summary = list(some), list(some)+" hold different data, and there is no majority, do not guess"
		f.Remedy = []string{"kvd diff " + files[0] + " " + files[1] + " --stat  # what differs; decide which data to keep", "kvd member replace NAME  # rebuild the other, with an empty data dir"}
	}
	if len(revisions) > 1 {
		f.Summary += "; by the same entries they have come to different revisions, as after restores from different snapshots"
	}
	for _, d := range all {
		c := d.DB.Content
		f.Evidence = append(f.Evidence, Evidence{What: "revision", Value: float64(c.Revision), Unit: Index, Source: d.Path},
			Evidence{What: "consistent index", Value: float64(c.ConsistentIndex), Unit: Index, Source: d.Path}, Evidence{What: "hash", Text: fmt.Sprintf("%08x", c.Digests.KV.Hash), Source: d.Path})
	}
	return f, true
}
