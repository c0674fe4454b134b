package diagnose

import (
	"fmt"

	"kvd/pkg/ops/snapshot"
)

// compareDirs sets directories side by side and says which is the newest: by the
// term, then the index of the last entry, as raft compares logs (isUpToDate in
// raft's log.go), among those on which a start loses nothing. Where two have gone
// apart no comparison tells which to keep, and where a database goes further than
// every such log, it is what has most.
func compareDirs(all []Dir) ([]DirLine, string) {
	var out []DirLine
	best := -1
	for i := range all {
		d := &all[i]
		if d.Log == nil {
			out = append(out, DirLine{Path: d.Path, Starts: noLog})
			continue
		}
		l := DirLine{Path: d.Path, Member: orEmpty(d.Log.Member), Cluster: orEmpty(d.Log.Cluster), Term: d.Log.Numbers.Last.Term, Last: d.Log.Numbers.Last.Index,
			Commit: d.Log.Numbers.Commit, ConsistentIndex: d.Log.Numbers.Consistent, Starts: string(d.verdict().Outcome), Name: d.name()}
		if d.DB != nil && d.DB.Content != nil {
			l.Revision = &d.DB.Content.Revision
		}
		out = append(out, l)
		if d.usable() && (best < 0 || further(l, out[best])) {
			best = len(out) - 1
		}
	}
	if len(out) < 2 {
		return out, ""
	}
	if forks := forksOf(all); len(forks) > 0 {
		return out, "keep all of them: " + forks[0].says() + ", so that none of the two has everything"
	}
	if db := furthestDB(all, best); db >= 0 {
		out[db].Newest = true
		return out, databaseWords(&all[db], out, best)
	}
	if best < 0 {
		return out, ""
	}
	out[best].Newest = true
	return out, newestWords(out, best)
}

// newestWords says which directory goes furthest, and how far the others are behind it.
func newestWords(out []DirLine, best int) string {
	b := out[best]
	why := fmt.Sprintf("keep %s: its log goes furthest of those that can be used, to term %d, index %d", b.Path, b.Term, b.Last)
	var same, other, unknown []string
	for i, l := range out {
		switch {
		case i == best, l.Starts == noLog:
		case l.Cluster == "" || b.Cluster == "":
			unknown = append(unknown, l.Path)
		case l.Cluster != b.Cluster:
			other = append(other, l.Path)
		case l.Term == b.Term && l.Last == b.Last:
			same = append(same, l.Path)
		case l.Last < b.Last:
			why += fmt.Sprintf("; the log of %s ends %s before", l.Path, counted(b.Last-l.Last, "entry"))
		}
	}
	if len(same) > 0 {
		why += "; as far as " + list(same)
	}
	if len(other) > 0 {
		why += "; " + list(other) + " belongs to another cluster, whose indexes do not compare"
	}
	if len(unknown) > 0 {
		why += "; of " + list(unknown) + " the cluster is unknown: a log tells it, and there is none"
		if b.Cluster == "" {
			why += " in " + b.Path
		}
	}
	return why
}

// furthestDB is the directory that etcd does not start on, or not without a loss, and
// whose database has more entries applied than the best log that can be used (-1: there
// is none): what was applied was committed, and a restore takes it from the database
// alone. It is -1 where there is no such database of the same cluster.
func furthestDB(all []Dir, best int) int {
	at := -1
	var index, term uint64
	if best >= 0 {
		index, term = all[best].Log.Numbers.Last.Index, all[best].Log.Numbers.Last.Term
	}
	for i := range all {
		d := &all[i]
		if d.Log == nil || d.usable() || d.Log.Database == nil || d.DB == nil || d.DB.Content == nil || d.DB.Verdict == snapshot.NotRestorable {
			continue
		}
		if best >= 0 && !sameMembers(d, &all[best]) {
			continue
		}
		if best < 0 && at >= 0 && !sameMembers(d, &all[at]) {
			return -1 // of two clusters, whose indexes do not compare
		}
		db := d.Log.Database
		if db.ConsistentIndex > index && (db.Term == 0 || db.Term >= term) { // before etcd 3.5 none is stored
			at, index, term = i, db.ConsistentIndex, db.Term
		}
	}
	return at
}

// sameMembers reports directories whose databases have a member in common. An ID is made
// of the cluster's token and peer URLs (computeMemberID in etcd's membership package), so
// that two clusters have none in common.
func sameMembers(a, b *Dir) bool {
	if a.Log.Database == nil || b.Log.Database == nil {
		return false
	}
	of := map[uint64]bool{}
	for _, m := range a.Log.Database.Members {
		of[uint64(m.ID)] = true
	}
	for _, m := range b.Log.Database.Members {
		if of[uint64(m.ID)] {
			return true
		}
	}
	return false
}

func databaseWords(d *Dir, out []DirLine, best int) string {
	why := fmt.Sprintf("keep %s: no member should be started on it, but its database has all up to entry %d, revision %d", d.Path, d.Log.Database.ConsistentIndex, d.DB.Content.Revision)
	if best >= 0 {
		why += fmt.Sprintf(", and the best log that can be used, %s, ends %s before", out[best].Path, counted(d.Log.Database.ConsistentIndex-out[best].Last, "entry"))
	}
	return why + "; copy that database, and begin anew from the copy: kvd snapshot restore " + ShellWord(d.DB.File) + " --skip-hash-check --bump-revision auto"
}
