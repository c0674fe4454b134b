package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"kvd/pkg/ops/fault"
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
	first := Segment{Name: from.File}
	first.Seq, first.Index, _ = parseName(first.Name)
	if err := t.open(first); err != nil {
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
			if following.Seq > t.r.seg.Seq+1 {
				return purged(t.dir, *following)
			}
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
	if errors.Is(err, fs.ErrNotExist) {
		if left, err := Segments(t.dir); err == nil && len(left) > 0 && left[0].Seq > seg.Seq {
			return purged(t.dir, left[0])
		}
	}
	if err != nil {
		return unreadable(path, err)
	}
	t.f = f
	t.r.open(seg, f, 0, true)
	t.marks.reset(t.r.crc)
	return nil
}

// purged says that a server has removed segments which were not read yet, and which
// is the first behind them. That is no damage: it keeps as many as --max-wals says.
func purged(dir string, next Segment) error {
	return &fault.Error{Kind: fault.Inconclusive, Cause: "wal_purged", Op: "follow the WAL", Subject: dir,
		Msg:  fmt.Sprintf("the server has removed segments before they were read: what it wrote before entry %d is not shown", next.Index),
		Hint: fmt.Sprintf("go on with --index %d..; whoever reads the output must not be slower than the server writes", next.Index)}
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
			if t.again++; t.again < patience && t.r.last {
				return nil
			}
			if err = d.fault(); t.again == patience { // once: it takes as long as reading the rest of the file
				err = settleCut(ctx, t.dir, err)
			}
			if d.cutShort() {
				return nil
			}
			return err
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
