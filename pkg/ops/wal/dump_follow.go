package wal

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// patience is how many looks in a row may find the same damage before it is
// believed: a running server may be writing just there.
const patience = 5

// tail reads on where a log grows.
type tail struct {
	dir   string
	r     reader
	f     *os.File
	from  Position // where to begin
	marks marks
	again int // looks in a row that found damage
}

// follow calls fn with each record behind from, and with what a running server
// appends, until the context ends, whose cause it then returns.
func follow(ctx context.Context, dir string, from Position, poll time.Duration, fn func(*Record) error) error {
	dir, err := Find(dir)
	if err != nil {
		return err
	}
	t := tail{dir: dir, from: from}
	defer func() { t.close() }()
	if err := t.open(Segment{Name: from.File}); err != nil {
		return err
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		// A segment is complete once another follows it: so that is looked at first.
		following, err := t.following()
		if err != nil {
			return err
		}
		t.r.last = following == nil
		if err := t.read(ctx, fn); err != nil {
			return err
		}
		if following != nil {
			if err := t.open(*following); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// open goes on with a segment.
func (t *tail) open(seg Segment) error {
	t.close()
	path := filepath.Join(t.dir, seg.Name)
	f, err := os.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	t.f = f
	t.r.open(seg, f, 0, true)
	t.marks.reset(t.r.crc)
	return nil
}

func (t *tail) close() {
	t.r.close()
	if t.f != nil {
		t.f.Close()
	}
}

// following returns the segment behind the one in hand, or nil.
func (t *tail) following() (*Segment, error) {
	segments, err := Segments(t.dir)
	if err != nil {
		return nil, err
	}
	for i, s := range segments {
		if s.Name > t.r.seg.Name {
			return &segments[i], nil
		}
	}
	return nil, nil
}

// read calls fn with what has been written since the last time.
func (t *tail) read(ctx context.Context, fn func(*Record) error) error {
	info, err := t.f.Stat()
	if err != nil {
		return unreadable(t.f.Name(), err)
	}
	k, rewritten, err := t.marks.back(t.f, t.f.Name())
	if err != nil {
		return err
	}
	if rewritten { // what stood behind is not committed, and what stands there now replaces it
		t.r.off, t.r.crc, t.from = k.end, k.crc, Position{}
	}
	t.r.seek(t.f, t.r.off)
	t.r.limit = info.Size()
	for ctx.Err() == nil {
		var rec Record
		err := t.r.next(&rec)
		var d *Damage
		switch {
		case errors.Is(err, io.EOF):
			t.again = 0
			return nil
		case errors.As(err, &d):
			if t.again++; d.Repaired() || t.again < patience && t.r.last {
				return nil
			}
			return d.fault()
		case err != nil:
			return err
		}
		t.marks.add(&rec, t.r.crc)
		if rec.before(t.from) {
			continue
		}
		if err := fn(&rec); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
