package diagnose

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"kvd/pkg/ops/wal"
)

// sumOf is what two members have the same of an entry.
func sumOf(e *wal.Entry) uint32 {
	var head [12]byte
	binary.LittleEndian.PutUint64(head[:8], e.Term)
	binary.LittleEndian.PutUint32(head[8:], uint32(e.Type)) //nolint:gosec // bits
	return crc32.Update(crc32.ChecksumIEEE(head[:]), crc32.IEEETable, e.Data)
}

// addSum takes an entry in. One with an index that was there replaces it and all behind
// it, as ReadAll in etcd's wal.go does; one behind a gap ends what can be compared.
func (d *Dir) addSum(e *wal.Entry) {
	if e.Index < d.First || e.Index > d.First+uint64(len(d.Sums)) {
		return
	}
	d.Sums = append(d.Sums[:e.Index-d.First], sumOf(e))
}

// fork is two directories of one cluster that have gone apart: the entry at an index
// differs, and one of them knows its own to be committed. Raft never lets that come
// about (leader completeness); a member that --force-new-cluster made a cluster of, or
// that was put back from a copy and voted, does.
type fork struct {
	a, b *Dir
	at   uint64 // index of the first entry that differs
}

func (f fork) says() string {
	return fmt.Sprintf("%s and %s have gone apart at entry %d: the one goes on to index %d in term %d, the other to index %d in term %d", f.a.Path, f.b.Path, f.at,
		f.a.Log.Numbers.Last.Index, f.a.Log.Numbers.Last.Term, f.b.Log.Numbers.Last.Index, f.b.Log.Numbers.Last.Term)
}

func forksOf(all []Dir) []fork {
	var out []fork
	for i := range all {
		for j := range i {
			if at := forkedAt(&all[j], &all[i]); at > 0 {
				out = append(out, fork{&all[j], &all[i], at})
			}
		}
	}
	return out
}

// forkedAt is the index of the first entry that differs between two logs of one cluster
// and must not, 0 where there is none. A commit index is stored with the entries after
// it: what it says may be too little, never too much.
func forkedAt(a, b *Dir) uint64 {
	if a.Log == nil || b.Log == nil || a.Log.Cluster == 0 || a.Log.Cluster != b.Log.Cluster || a.First == 0 || b.First == 0 {
		return 0
	}
	committed := max(a.Log.Numbers.Commit, b.Log.Numbers.Commit)
	for i := max(a.First, b.First); i <= committed; i++ {
		x, inA := a.sum(i)
		y, inB := b.sum(i)
		if inA && inB && x == y {
			continue
		}
		if overrides(a, b, i, inA, inB) || overrides(b, a, i, inB, inA) {
			return i
		}
		return 0
	}
	return 0
}

// overrides reports that a log has entry i committed and that another one, which has
// another entry there or ends before it, is nevertheless of as late a term: whoever led
// in that term had the entry. One of an earlier term has what was never committed, or
// was down.
func overrides(has, lacks *Dir, i uint64, inHas, inLacks bool) bool {
	mine, other := has.Log.Numbers, lacks.Log.Numbers
	switch {
	case !inHas || i > mine.Commit:
		return false
	case inLacks:
		return other.Last.Term >= mine.Last.Term || i <= other.Commit
	}
	return other.Last.Index+1 == i && other.Last.Term > mine.Last.Term
}

// sum is that of the entry at an index, if the log has it.
func (d *Dir) sum(i uint64) (uint32, bool) {
	if i < d.First || i-d.First >= uint64(len(d.Sums)) {
		return 0, false
	}
	return d.Sums[i-d.First], true
}

// forked reports logs that have gone apart.
func (in *Input) forked() []Finding {
	var out []Finding
	for _, f := range forksOf(in.Dirs) {
		x := Finding{ID: "KVD-CORRUPT-002", Severity: Critical, Subject: list([]string{f.a.Path, f.b.Path}),
			Summary: f.says() + ", as after --force-new-cluster on one while the other went on; what was acknowledged is in both, and neither has all of it",
			Remedy: []string{"start none of them with an empty data directory, and keep a copy of each",
				"kvd diff " + ShellWord(f.a.Path) + " " + ShellWord(f.b.Path) + " --stat  # stopped: what each has that the other lacks",
				"choose one to go on with, write into it what only the other has, and let the others join it with empty data dirs"}}
		x.Evidence = append(x.Evidence, f.a.numbers()...)
		x.Evidence = append(x.Evidence, f.b.numbers()...)
		out = append(out, x)
	}
	return out
}
