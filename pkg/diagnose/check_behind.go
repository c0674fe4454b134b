package diagnose

import (
	"cmp"
	"fmt"
	"strings"

	"kvd/pkg/ops/wal"
)

// restEntries is by how many entries logs differ where members were stopped one after
// the other and nobody wrote: those of the elections in between.
const restEntries = 10

// behind finds logs that end before the furthest one of their cluster, where no member
// runs that knows better (amongPeers). That is usual for a member that was down, and the
// end of one that had acknowledged more. Logs tell the two apart only where fewer than a
// quorum have what is committed.
func (in *Input) behind() []Finding {
	if in.view().ID != 0 {
		return nil
	}
	var out []Finding
	for i := range in.Dirs {
		d := &in.Dirs[i]
		group := in.ofCluster(d)
		if len(group) < 2 || d.Holder != "" || !d.usable() {
			continue
		}
		b := group[0]
		for _, o := range group[1:] {
			if cmp.Or(cmp.Compare(o.Log.Numbers.Last.Term, b.Log.Numbers.Last.Term), cmp.Compare(o.Log.Numbers.Last.Index, b.Log.Numbers.Last.Index)) > 0 {
				b = o
			}
		}
		if forkedAt(d, b) > 0 {
			continue // forked tells: it does not catch up
		}
		if f, ok := d.behind(b, group); ok {
			out = append(out, f)
		}
	}
	return out
}

// ofCluster are all directories with a log of the same cluster.
func (in *Input) ofCluster(d *Dir) []*Dir {
	if d.Log == nil || d.Log.Cluster == 0 {
		return nil
	}
	var out []*Dir
	for i := range in.Dirs {
		if o := &in.Dirs[i]; o.Log != nil && o.Log.Cluster == d.Log.Cluster {
			out = append(out, o)
		}
	}
	return out
}

// behind compares a log with the furthest one.
func (d *Dir) behind(b *Dir, group []*Dir) (Finding, bool) {
	mine, theirs := d.Log.Numbers.Last, b.Log.Numbers.Last
	if mine.Index >= theirs.Index {
		return Finding{}, false
	}
	commit := committed(group)
	f := Finding{ID: "KVD-RAFT-011", Severity: Info, Subject: d.Path, Summary: fmt.Sprintf("its log ends at entry %d, %s before that of %s", mine.Index, counted(theirs.Index-mine.Index, "entry"), b.Path),
		Evidence: append(d.numbers(), Evidence{What: "last entry", Value: float64(theirs.Index), Unit: Index, Source: b.Path}, Evidence{What: "committed, by all that are given", Value: float64(commit), Unit: Index, Source: "logs and databases"})}
	const again = "kvd member replace NAME  # with an empty data dir, if it ends with \"tocommit(…) is out of range\" when it is started after the others"
	short, behind, of := lacking(b, group, commit)
	switch {
	case d.Log.Member == b.Log.Member:
		if theirs.Index-mine.Index <= restEntries {
			return Finding{}, false
		}
		f.Summary += ": an older state of the same member, which had acknowledged what is missing in it"
		f.Remedy = []string{"keep " + b.Path + ", and start nothing on this one"}
	case short > 0 && mine.Index < commit && behind[d.Log.Member]:
		f.Severity = Warning
		who := fmt.Sprintf("%d of the %d that are behind", short, len(behind))
		if short == len(behind) {
			who = "each that is behind"
		}
		f.Summary += fmt.Sprintf("; entry %d is committed, which takes %d of %d voters, and fewer have it: %s had acknowledged it and has lost it (an old copy put back, lost writes), and ends with \"tocommit(%d) is out of range [lastIndex(%d)]\"",
			commit, of/2+1, of, who, commit, mine.Index)
		f.Remedy = []string{"find the directory of before, which has them", again}
	case theirs.Index-mine.Index <= restEntries:
		return Finding{}, false
	default:
		f.Summary += ": usual for a member that was down earlier, which catches up; one that was put back from an old copy had acknowledged more, and ends with \"tocommit(…) is out of range\". Files do not tell which it is"
		f.Remedy = []string{"kvd diagnose --data-dir " + ShellWord(d.Path) + " --endpoints URL  # when the others run", again}
	}
	return f, true
}

// committed is the furthest entry that is known to be.
func committed(group []*Dir) uint64 {
	var out uint64
	for _, d := range group {
		out = max(out, d.Log.Numbers.Commit)
		if c := d.Log.Numbers.Consistent; c != nil {
			out = max(out, *c)
		}
	}
	return out
}

// lacking says how many voters more than those that may have a committed entry it took to
// commit it: of those whose logs end before it, as many must have had it. 0 where the
// logs fit, or where it is not known who votes: a voter that never started (it has no
// name) may have been added by the very entry.
func lacking(b *Dir, group []*Dir, commit uint64) (short int, behind map[wal.ID]bool, voters int) {
	db := b.Log.Database
	if db == nil || db.Unread != "" {
		return 0, nil, 0
	}
	last := map[wal.ID]uint64{}
	for _, d := range group {
		last[d.Log.Member] = max(last[d.Log.Member], d.Log.Numbers.Last.Index)
		if d.Holder != "" || !d.usable() {
			last[d.Log.Member] = commit // what it has is not all known
		}
	}
	behind = map[wal.ID]bool{}
	for _, m := range db.Members {
		if m.Learner {
			continue
		}
		if strings.TrimSpace(m.Name) == "" {
			return 0, nil, 0
		}
		voters++
		if at, given := last[m.ID]; given && at < commit {
			behind[m.ID] = true
		}
	}
	return max(0, voters/2+1-(voters-len(behind))), behind, voters
}
