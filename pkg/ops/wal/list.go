package wal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"kvd/pkg/ops/dbfile"
)

// Listing is what is in a WAL folder.
type Listing struct {
	Dir      string           `json:"dir"`
	Live     string           `json:"live,omitempty"` // the process that writes to it
	Segments []SegmentListing `json:"segments"`
	Files    []OtherFile      `json:"other_files"`
	Metadata
	State   HardState `json:"hard_state"` // the last
	Bytes   int64     `json:"bytes"`
	Used    int64     `json:"used_bytes"` // up to the last record of each segment
	Records int64     `json:"records"`
	Entries int64     `json:"entries"`
	Last    EntryID   `json:"last_entry"`
	Damages []Damage  `json:"damages"` // the first 100 of them; what follows one is read all the same
	Damaged int64     `json:"damages_found"`
}

// SegmentListing is what is in one segment.
type SegmentListing struct {
	Segment
	Used     int64   `json:"used_bytes"` // up to its last record; the rest was allocated beforehand
	Records  int64   `json:"records"`
	Entries  int64   `json:"entries"`             // records of entries, replaced ones included
	First    EntryID `json:"first_entry"`         // zero if there are none
	Last     EntryID `json:"last_entry"`          // of the last such record
	Begins   CRC     `json:"crc_at_begin"`        // as its first record has it
	Ends     CRC     `json:"crc_at_end"`          // of its last record, which the next segment has to begin with
	Chained  bool    `json:"chained"`             // it goes on where the segment before it ended, or is the first
	Replaced int64   `json:"entries_replaced"`    // entries written with an index that had been written before: by a new leader
	Snaps    []Mark  `json:"snapshots"`           // records that the state at an index is saved
	Damages  int64   `json:"damages_found"`       // in this segment
	Cut      *Damage `json:"in_flight,omitempty"` // a last record that is not whole: being written if the log is live
}

// Mark is a snapshot record, and where it is.
type Mark struct {
	Snapshot
	Position
}

// maxDamages is how many damages are told one by one.
const maxDamages = 100

// List goes through the log of a data directory, its member folder or a WAL
// folder, and behind damage too, which is in the result. Nothing is locked, and
// nothing is written. Memory is bounded by the largest record and the number of
// snapshot records.
func List(ctx context.Context, dir string) (Listing, error) {
	found, err := Find(dir)
	if err != nil {
		return Listing{Dir: dir}, err
	}
	l := lister{Listing: Listing{Dir: found, Damages: []Damage{}}}
	holder, live := writer(found)
	if live {
		l.Live = holder.String()
	}
	if l.Files, err = otherFiles(found); err != nil {
		return l.Listing, err
	}
	if err := survey(ctx, found, live, tour{begin: l.begin, record: l.record, damaged: l.damaged, end: l.end}); err != nil {
		return l.Listing, err
	}
	if l.meta == nil && l.Damaged < maxDamages && !slices.ContainsFunc(l.Damages, func(d Damage) bool { return d.Class == NotRead }) {
		var nobody *Damage
		if errors.As(named(l.segments(), nil, nil), &nobody) {
			l.Damages, l.Damaged = append(l.Damages, *nobody), l.Damaged+1
		}
	}
	return l.Listing, nil
}

// writer finds the server that writes to a log: it holds a lock on the last
// segment, of which the system does not tell whose it is, and one on the database.
func writer(dir string) (dbfile.Holder, bool) {
	segments, err := Segments(dir)
	if err != nil || len(segments) == 0 {
		return dbfile.Holder{}, false
	}
	f, err := os.Open(filepath.Join(dir, segments[len(segments)-1].Name))
	if err != nil {
		return dbfile.Holder{}, false
	}
	defer f.Close()
	h, live := dbfile.HolderOf(f)
	if db, err := os.Open(besideDB(dir)); live && err == nil {
		defer db.Close()
		h, _ = dbfile.HolderOf(db)
	}
	return h, live
}

// WrittenBy names the process that has a log open to write to it; "" if none has, or if
// there is no log. dir is as for Find.
func WrittenBy(dir string) string {
	found, err := Find(dir)
	if err != nil {
		return ""
	}
	return liveWords(found)
}

// liveWords names the process that writes to a log; "" if none does.
func liveWords(dir string) string {
	if h, live := writer(dir); live {
		return h.String()
	}
	return ""
}

// besideDB is where a member has its database if dir is its WAL folder: also if that is
// the working directory, ".", of which filepath.Dir makes itself. Where the folder is a
// link, as to a disk of its own, it is the one that was gone into that counts, by its name.
func besideDB(dir string) string {
	if base := filepath.Base(dir); base == "." || base == ".." {
		if path, err := filepath.Abs(dir); err == nil {
			dir = path
		}
	}
	return filepath.Join(filepath.Dir(dir), "snap", "db")
}

// inMember reports whether dir is by its place the WAL folder of a member, so that a
// start looks for a database beside it.
func inMember(dir string) bool {
	path, err := filepath.Abs(dir)
	return err == nil && filepath.Base(path) == "wal" && filepath.Base(filepath.Dir(path)) == "member"
}

// lister fills in a Listing.
type lister struct {
	Listing
	meta []byte  // of any record
	cut  *Damage // a record that is not whole, and nothing was read behind it so far
}

func (l *lister) at() *SegmentListing { return &l.Segments[len(l.Segments)-1] }

func (l *lister) begin(seg Segment) {
	l.Segments = append(l.Segments, SegmentListing{Segment: seg, Chained: true, Snaps: []Mark{}})
	l.Bytes += seg.Bytes
}

func (l *lister) record(r *Record) {
	s := l.at()
	if l.cut != nil {
		l.cut.continues(r.Position)
		s.Cut, l.cut = nil, nil
	}
	if s.Records == 0 {
		s.Begins = r.CRC
	}
	s.Ends = r.CRC
	s.Records++
	l.Records++
	switch r.Type {
	case EntryType:
		l.entry(s, r)
	case MetadataType:
		l.Metadata, l.meta = r.Metadata, []byte{}
	case StateType:
		l.State = r.State
	case SnapshotType:
		s.Snaps = append(s.Snaps, Mark{r.Snapshot, r.Position})
	case CRCType:
	}
}

func (l *lister) entry(s *SegmentListing, r *Record) {
	id := EntryID{r.Entry.Index, r.Entry.Term}
	if l.Entries > 0 && id.Index <= l.Last.Index {
		s.Replaced += int64(l.Last.Index - id.Index + 1) //nolint:gosec // fewer than there are entries
	}
	l.Entries++
	s.Entries++
	if s.Entries == 1 {
		s.First = id
	}
	s.Last, l.Last = id, id
}

func (l *lister) damaged(d *Damage, _ *Record) {
	s := l.at()
	if d.Class == BadChain && d.Offset == 0 {
		s.Chained = false
	}
	l.cut = nil
	if d.Repaired() {
		s.Cut = d
		if d.inFlight {
			return
		}
	}
	s.Damages++
	l.Damaged++
	if len(l.Damages) == maxDamages {
		return
	}
	l.Damages = append(l.Damages, *d)
	if d.Repaired() {
		l.cut = &l.Damages[len(l.Damages)-1]
	}
}

func (l *lister) end(used int64) {
	l.at().Used = used
	l.Used += used
}

func (l *lister) segments() (out []Segment) {
	for _, s := range l.Segments {
		out = append(out, s.Segment)
	}
	return out
}

// Err is the first damage that etcd does not repair by itself, as a *fault.Error
// of kind Damage; nil if there is none.
func (l *Listing) Err() error {
	for i := range l.Damages {
		if d := &l.Damages[i]; !d.cutShort() {
			return d.fault()
		}
	}
	return nil
}
