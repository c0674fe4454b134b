package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// checkEvery is how many records are read between two looks at the context.
const checkEvery = 4096

// Records calls fn with each record of the log in dir (see Find), in order. What
// fn returns ends it and is returned as it is. A record's Data is overwritten by
// the next.
//
// Damage ends it with a *fault.Error of kind Damage around a *Damage. Damage
// that etcd repairs by itself (Damage.Repaired) is returned as well: with a
// server running, it can be a record that is just being written. Memory is
// bounded by the largest record. Concurrent calls are independent.
func Records(ctx context.Context, dir string, fn func(Record) error) error {
	_, err := read(ctx, dir, func(r *Record) error { return fn(*r) }, nil)
	return err
}

// read is Records without a copy of each record, and with a callback at each
// segment's end, which gets where its data ends. It returns the folder of the log.
func read(ctx context.Context, dir string, fn func(*Record) error, ended func(*os.File, Segment, int64)) (string, error) {
	l, err := openLog(dir)
	defer l.close()
	if err != nil {
		return l.dir, err
	}
	return l.dir, l.read(ctx, fn, ended)
}

// opened is a log of which all segments were opened before the first is read.
type opened struct {
	dir      string // of the segments
	files    []*os.File
	segments []Segment
}

// openLog opens the log in dir (see Find). It is to be closed also after an error.
func openLog(dir string) (l opened, err error) {
	if l.dir, err = Find(dir); err != nil {
		return l, err
	}
	if l.segments, err = Segments(l.dir); err != nil {
		return l, err
	}
	l.files, l.segments, err = openAll(l.dir, l.segments)
	return l, err
}

func (l *opened) close() { closeAll(l.files) }

// read reads all of it, as the function read does.
func (l *opened) read(ctx context.Context, fn func(*Record) error, ended func(*os.File, Segment, int64)) error {
	var r reader
	defer r.close()
	err := l.part(ctx, &r, place{}, place{segment: len(l.segments)}, fn, ended)
	return named(l.segments, r.meta, err)
}

// place is where a record of a log begins.
type place struct {
	segment int
	offset  int64
	crc     CRC // of the log before it; not told at the beginning of a segment
}

// part reads from one place to before another, where there must be a record's
// beginning as well: r.off tells. Of a segment that is not read to its end, ended is
// not called.
func (l *opened) part(ctx context.Context, r *reader, from, to place, fn func(*Record) error, ended func(*os.File, Segment, int64)) error {
	for i := from.segment; i < len(l.segments); i++ {
		begin, stop := int64(0), int64(math.MaxInt64)
		if i == from.segment {
			begin = from.offset
		}
		if i == to.segment {
			stop = to.offset
		}
		if stop == 0 || i > to.segment {
			return nil
		}
		if err := l.open(r, i); err != nil {
			return err
		}
		if begin > 0 {
			r.seek(l.files[i], begin)
			r.crc = from.crc
		}
		whole, err := segment(ctx, r, stop, fn)
		if whole && ended != nil {
			ended(l.files[i], r.seg, r.off)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// open goes on with a segment.
func (l *opened) open(r *reader, i int) error {
	seg, f := l.segments[i], l.files[i]
	info, err := f.Stat()
	if err != nil {
		return unreadable(f.Name(), err)
	}
	seg.Bytes = info.Size() // the tail is cut when the next segment begins
	r.open(seg, f, seg.Bytes, i == len(l.segments)-1)
	return nil
}

// openAll opens segments before the first is read: a running server may remove
// the oldest at any time, and whoever reads may take long. Those that it has
// removed already are left out; the last one it never removes.
func openAll(dir string, segments []Segment) (files []*os.File, left []Segment, err error) {
	files, left, errs := openEach(dir, segments)
	for _, err := range errs {
		if err != nil {
			return files, nil, err
		}
	}
	if len(files) == 0 {
		return nil, nil, unreadable(dir, fmt.Errorf("its segments are gone since it was listed: %w", fs.ErrNotExist))
	}
	return files, left, nil
}

// openEach is openAll, with an error for each segment in place of one for all: a file is
// nil where it could not be opened.
func openEach(dir string, segments []Segment) (files []*os.File, left []Segment, errs []error) {
	for i, seg := range segments {
		path := filepath.Join(dir, seg.Name)
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) && len(files) == 0 && i < len(segments)-1 && lostLink(path) == "" {
			continue
		}
		if err != nil {
			f, err = nil, unreadable(path, err)
		}
		files, left, errs = append(files, f), append(left, seg), append(errs, err)
	}
	return files, left, errs
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close() //nolint:errcheck // nothing was written
		}
	}
}

// segment reads the records of the segment that is open up to one that begins at stop
// or behind it, and reports whether it came as far as they go.
func segment(ctx context.Context, r *reader, stop int64, fn func(*Record) error) (whole bool, err error) {
	var rec Record
	for n := 0; r.off < stop; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		if err := r.next(&rec); err != nil {
			return true, ending(err)
		}
		if err := fn(&rec); err != nil {
			return true, err
		}
	}
	return false, nil
}

// ending is what the reading of a segment ends with, of what next has returned.
func ending(err error) error {
	var d *Damage
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &d):
		return d.fault()
	}
	return err
}
