package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	return l.part(ctx, &r, 0, len(l.segments), fn, ended)
}

// part reads the segments from one to before another, going on with r.
func (l *opened) part(ctx context.Context, r *reader, from, to int, fn func(*Record) error, ended func(*os.File, Segment, int64)) error {
	for i := from; i < to; i++ {
		if err := segment(ctx, r, l.files[i], l.segments[i], i == len(l.segments)-1, fn, ended); err != nil {
			return err
		}
	}
	return nil
}

// openAll opens segments before the first is read: a running server may remove
// the oldest at any time, and whoever reads may take long. Those that it has
// removed already are left out; the last one it never removes.
func openAll(dir string, segments []Segment) (files []*os.File, left []Segment, err error) {
	for i, seg := range segments {
		path := filepath.Join(dir, seg.Name)
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) && len(files) == 0 && i < len(segments)-1 {
			continue
		}
		if err != nil {
			return files, nil, unreadable(path, err)
		}
		files, left = append(files, f), append(left, seg)
	}
	if len(files) == 0 {
		return nil, nil, unreadable(dir, fmt.Errorf("its segments are gone since it was listed: %w", fs.ErrNotExist))
	}
	return files, left, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close() //nolint:errcheck // nothing was written
	}
}

func segment(ctx context.Context, r *reader, f *os.File, seg Segment, last bool, fn func(*Record) error, ended func(*os.File, Segment, int64)) error {
	info, err := f.Stat()
	if err != nil {
		return unreadable(f.Name(), err)
	}
	seg.Bytes = info.Size() // the tail is cut when the next segment begins
	r.open(seg, f, seg.Bytes, last)
	if ended != nil {
		defer func() { ended(f, seg, r.off) }()
	}
	var rec Record
	for n := 0; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := r.next(&rec)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var d *Damage
		if errors.As(err, &d) {
			return d.fault()
		}
		if err != nil {
			return err
		}
		if err := fn(&rec); err != nil {
			return err
		}
	}
}
