package wal

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// State says what became of an entry, as far as the log knows.
type State string

// The states of an entry.
const (
	Committed   State = "committed"
	Uncommitted State = "uncommitted" // behind the commit index that the log knows; the last entries of any log, or lost
	Overwritten State = "overwritten" // a later leader put another in its place, so that it was never applied
)

// horizon is what has to be known of the whole log before a line of it can be
// said: which entries were overwritten, what is committed, and where it ends.
type horizon struct {
	dir    string // of the segments
	commit uint64
	last   uint64
	end    Position // behind the last record
	cuts   []cut    // by place, and so by index
	damage *Damage
	lost   lost
}

// cut is a place from which on a later leader's entries stand: those before it
// from the index on are overwritten.
type cut struct {
	at   Position
	from uint64
}

// look reads a log for its horizon. Damage is no error here: it ends the log.
func look(ctx context.Context, dir string) (horizon, error) {
	var s horizon
	found, err := read(ctx, dir, func(r *Record) error {
		s.add(r)
		return nil
	}, s.lost.look)
	s.dir, err = found, settleCut(ctx, found, err)
	if errors.As(err, &s.damage) {
		err = nil
	}
	return s, err
}

func (s *horizon) add(r *Record) {
	s.end = Position{r.File, r.Offset + r.Size}
	switch r.Type {
	case StateType:
		s.commit = r.State.Commit
	case EntryType:
		if r.Entry.Index <= s.last {
			// One from a smaller index on makes those from a larger one on needless.
			for len(s.cuts) > 0 && s.cuts[len(s.cuts)-1].from >= r.Entry.Index {
				s.cuts = s.cuts[:len(s.cuts)-1]
			}
			s.cuts = append(s.cuts, cut{r.Position, r.Entry.Index})
		}
		s.last = r.Entry.Index
	case MetadataType, CRCType, SnapshotType:
	}
}

// lookTwice is look, again where damage may be a record that a server was just writing:
// until it is found in one place twice.
func lookTwice(ctx context.Context, dir string) (horizon, error) {
	found, err := look(ctx, dir)
	for tries := 1; err == nil && tries < patience; tries++ {
		d := found.damage
		if d == nil || !d.Last || d.cutShort() {
			break
		}
		if found, err = look(ctx, dir); err == nil && found.damage != nil && found.damage.Position == d.Position {
			break
		}
	}
	return found, err
}

// state says what became of an entry. Entries have to be asked for in order.
func (s *horizon) state(r *Record) State {
	s.cuts = slices.DeleteFunc(s.cuts, func(c cut) bool { return !r.before(c.at) })
	if len(s.cuts) > 0 && s.cuts[0].from <= r.Entry.Index {
		return Overwritten
	}
	if r.Entry.Index > s.commit {
		return Uncommitted
	}
	return Committed
}

// before compares places: names of segments ascend.
func (p Position) before(q Position) bool {
	if c := strings.Compare(p.File, q.File); c != 0 {
		return c < 0
	}
	return p.Offset < q.Offset
}
