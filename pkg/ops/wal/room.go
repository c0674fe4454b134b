package wal

import (
	"path/filepath"

	"github.com/dustin/go-humanize"
)

// CauseDiskFull is a start that has no room to write in.
const CauseDiskFull = "disk_full"

const (
	// noRoom is less than what the first writes need: pages of the database, and of the log
	// where these are not allocated. What is allocated, etcd can still write to: a start may
	// come as far as that.
	noRoom = 1 << 20
	// segmentRoom are allocated for a segment before it is used (SegmentSizeBytes in
	// server/storage/wal/wal.go), and a server that cannot do that ends when it needs it.
	segmentRoom = 64 * 1000 * 1000
)

// room is what may still be written to a file system.
type room struct {
	bytes  int64
	files  bool // new ones can be made
	device uint64
}

// remarkRoom tells of file systems that are full: a start on a whole log ends on them all
// the same, with "no space left on device". One that is mounted read-only holds a copy, which is
// started elsewhere.
func (x *exam) remarkRoom(db string, files []OtherFile) {
	need := int64(segmentRoom)
	for _, f := range files {
		if f.Kind == FilePrepared {
			need = min(need, segmentRoom-f.Bytes)
		}
	}
	here, ok := roomOf(x.Dir)
	told := ok && x.fullFor(x.Dir, here, need)
	if there, ok := roomOf(filepath.Dir(db)); ok && (!told || there.device != here.device) && !x.bare {
		x.fullFor(filepath.Dir(db), there, 0)
	}
}

// fullFor adds a finding where what is left is too little.
func (x *exam) fullFor(dir string, r room, need int64) bool {
	hint := "make room there before it is started, by what is not of etcd, or give it a larger disk; delete nothing of member/"
	if x.Verdict.Outcome == Starts {
		hint += ": what was acknowledged is in the log, and nothing is lost"
	}
	free := humanize.IBytes(uint64(max(0, r.bytes))) //nolint:gosec // not negative
	if !r.files || r.bytes < noRoom {
		x.Verdict.Why += "; but there is no room to write in"
	}
	switch {
	case !r.files:
		x.add(Critical, CauseDiskFull, hint, "no file can be made any more on the file system of %s (no inode is free): etcd ends there with \"no space left on device\"", dir)
	case r.bytes < noRoom:
		x.add(Critical, CauseDiskFull, hint, "%s may still be written to the file system of %s: etcd ends there with \"no space left on device\", at its start or as soon as it needs more than its files already have", free, dir)
	case r.bytes < need && inMember(x.Dir):
		x.add(Warning, CauseDiskFull, hint, "%s may still be written to the file system of %s: etcd starts, and ends with \"no space left on device\" when it needs the next segment, for which it allocates %s",
			free, dir, humanize.Bytes(segmentRoom))
	default:
		return false
	}
	return true
}
