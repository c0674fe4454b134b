package wal

import (
	"fmt"
	"slices"
	"strings"
)

// contents is what a segment has, whatever its name is.
type contents struct {
	begins, ends CRC    // as its first record has it, and of its last one
	first, last  uint64 // entries, 0 if there are none
	enti         uint64 // that a segment behind it would be named after: see cut in wal.go
	damaged      bool   // within, so that its end cannot be trusted
	records      int
}

// see takes in a record of the segment in hand.
func (c *contents) see(r *Record) {
	if c.records++; c.records == 1 {
		c.begins = r.CRC
	}
	c.ends = r.CRC
	switch r.Type {
	case EntryType:
		if c.first == 0 {
			c.first = r.Entry.Index
		}
		c.last, c.enti = r.Entry.Index, r.Entry.Index
	case SnapshotType:
		c.enti = max(c.enti, r.Snapshot.Index)
	case MetadataType, StateType, CRCType:
	}
}

// spoil takes in damage of the segment in hand. One that does not go on where the one
// before it ended is whole by itself.
func (c *contents) spoil(d *Damage) {
	if d.Class != BadChain || d.Offset > 0 || d.StoredCRC == nil {
		c.damaged = true
		return
	}
	c.records, c.begins, c.ends = 1, *d.StoredCRC, *d.StoredCRC
}

// rename is a segment, and the name that etcd gave it.
type rename struct{ from, to string }

// renames finds the names that the segments had, where their contents follow each other
// by the CRC that runs on from one to the next, and their names do not say so; nil is that
// they do, or that it is not the names.
func (x *exam) renames() []rename {
	order := x.byCRC()
	if order == nil {
		return nil
	}
	var out []rename
	seg, enti := x.segments[order[0]], uint64(0)
	if x.contents[order[0]].begins == 0 { // the very first
		seg.Seq, seg.Index = 0, 0
	}
	for i, at := range order {
		if i > 0 {
			seg.Seq, seg.Index = seg.Seq+1, enti+1
		}
		c := &x.contents[at]
		if i == 0 && c.begins != 0 {
			enti = seg.Index
		}
		enti = max(enti, c.enti)
		if c.first > 0 {
			enti = c.last
		}
		if to := seg.canonical(); to != x.segments[at].Name {
			out = append(out, rename{x.segments[at].Name, to})
		}
	}
	return out
}

// byCRC puts the segments in the order in which they were written; nil is that they are
// not parts of one whole log.
func (x *exam) byCRC() []int {
	follows := map[CRC]int{}
	ends := map[CRC]bool{}
	for i := range x.contents {
		c := &x.contents[i]
		if _, twice := follows[c.begins]; twice || c.damaged || c.records == 0 {
			return nil
		}
		follows[c.begins], ends[c.ends] = i, true
	}
	head := slices.IndexFunc(x.contents, func(c contents) bool { return !ends[c.begins] })
	if head < 0 {
		return nil
	}
	order := []int{head}
	for len(order) < len(x.contents) {
		next, ok := follows[x.contents[order[len(order)-1]].ends]
		if !ok || slices.Contains(order, next) {
			return nil
		}
		order = append(order, next)
	}
	return order
}

// hintNames says how the segments get their names back, as commands that never put one in
// the place of another.
func (x *exam) hintNames(all []rename) string {
	taken := map[string]bool{}
	for _, s := range x.segments {
		taken[s.Name] = true
	}
	var moves []string
	move := func(r rename) {
		moves = append(moves, fmt.Sprintf("mv -n '%s' '%s'", r.from, r.to))
		delete(taken, r.from)
		taken[r.to] = true
	}
	for len(all) > 0 {
		i := slices.IndexFunc(all, func(r rename) bool { return !taken[r.to] })
		if i < 0 { // each stands where another has to
			move(rename{all[0].from, all[0].from + ".aside"})
			all[0].from += ".aside"
			continue
		}
		move(all[i])
		all = slices.Delete(all, i, i+1)
	}
	return fmt.Sprintf("none is missing between the first segment and the last: by their CRCs they follow each other, and only their names do not say so. Stop what uses them, keep a copy of the folder, "+
		"`cd %s && %s`, and verify again", x.Dir, strings.Join(moves, " && "))
}
