package wal

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Info is what a log says of its member.
type Info struct {
	Dir      string    `json:"dir"` // of the segments
	Segments []Segment `json:"segments"`
	Bytes    int64     `json:"bytes"`      // of all files
	Used     int64     `json:"used_bytes"` // up to the last record of each
	Records  int64     `json:"records"`

	Metadata
	Entries   int64     `json:"entries"`             // records of entries, replaced ones included
	First     EntryID   `json:"first_entry"`         // of the first such record
	Last      EntryID   `json:"last_entry"`          // where the log ends
	State     HardState `json:"hard_state"`          // the last
	Snapshots int64     `json:"snapshot_records"`    // all of them
	Newest    Snapshot  `json:"newest_snapshot"`     // that is committed, which is where etcd begins to read
	End       Position  `json:"end"`                 // behind the last record
	Torn      *Damage   `json:"torn,omitempty"`      // a last record that was cut short; etcd repairs that
	Hidden    *Position `json:"hidden_at,omitempty"` // first byte that is not zero behind the end: a record's length was lost
	LastEntry Position  `json:"last_entry_at"`       // the record of Last
}

// EntryID names a raft entry.
type EntryID struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// Inspect reads the log of a data directory, its member folder or a WAL folder
// from end to end. A record cut short at its very end is no error, see Info.Torn;
// other damage is a *fault.Error of kind Damage, and then Info is what stands
// before it. Nothing is locked, and nothing is written. Memory is bounded by the
// largest record.
func Inspect(ctx context.Context, dir string) (Info, error) {
	var info Info
	var snaps []Snapshot // few: one for every 10,000 entries
	found, err := read(ctx, dir, func(r *Record) error {
		info.add(r)
		if r.Type == SnapshotType {
			snaps = append(snaps, r.Snapshot)
		}
		return nil
	}, func(f *os.File, seg Segment, end int64) {
		info.Segments = append(info.Segments, seg)
		info.Bytes += seg.Bytes
		info.Used += end
		info.End = Position{File: seg.Name, Offset: end}
		info.Hidden = hidden(f, seg, end)
	})
	info.Dir = found
	for _, s := range snaps {
		if s.Index <= info.State.Commit { // ValidSnapshotEntries in server/storage/wal
			info.Newest = s
		}
	}
	var d *Damage
	if errors.As(err, &d) {
		info.Hidden = nil // it is the damage
		if d.Repaired() {
			info.Torn = d
			return info, nil
		}
	}
	return info, err
}

func (i *Info) add(r *Record) {
	i.Records++
	switch r.Type {
	case MetadataType:
		i.Metadata = r.Metadata
	case EntryType:
		i.Entries++
		i.Last, i.LastEntry = EntryID{r.Entry.Index, r.Entry.Term}, r.Position
		if i.Entries == 1 {
			i.First = i.Last
		}
	case StateType:
		i.State = r.State
	case SnapshotType:
		i.Snapshots++
	case CRCType:
	}
}

// hidden finds the first byte behind a segment's data that is not zero. There is
// none in a sound log, unless a server has written on since: then there is a
// length now where there was none.
func hidden(f *os.File, seg Segment, end int64) *Position {
	at := firstData(f, end, seg.Bytes)
	if at < end+lengthBytes || hasLength(f, end) {
		return nil
	}
	return &Position{File: seg.Name, Offset: at}
}

// lost remembers the first segment of a log in which a length was lost.
type lost struct{ at *Damage }

// look is told where a segment's data end.
func (l *lost) look(f *os.File, seg Segment, end int64) {
	if at := hidden(f, seg, end); at != nil && l.at == nil {
		l.at = &Damage{Class: Hidden, Position: Position{seg.Name, end},
			Why: fmt.Sprintf("a length of 0, where by its format the log ends, but at offset %d there is data again", at.Offset)}
	}
}

// instead returns what is to be said in the place of how the log ended: well, or
// with a segment that does not go on where the one before it ended.
func (l *lost) instead(err error) error {
	var d *Damage
	if l.at == nil || err != nil && (!errors.As(err, &d) || d.Class != BadChain) {
		return err
	}
	l.at.Last = err == nil
	return l.at.fault()
}

func hasLength(f *os.File, end int64) bool {
	var b [lengthBytes]byte
	if _, err := f.ReadAt(b[:], end); err != nil {
		return false
	}
	return !allZero(b[:])
}
