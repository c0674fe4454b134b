package snapshot

import (
	"context"
	"errors"
	"syscall"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/spool"
)

// file is a snapshot or backend file that is open for reading, on disk as it is
// or compressed.
type file struct {
	*dbfile.File
	spool *spool.File // nil where it is not compressed
}

// open opens a file, and unpacks it where its first bytes say that it is compressed.
func open(ctx context.Context, path string, o Options, op string, sink progress.Sink) (*file, error) {
	if path == Stdout {
		return nil, &fault.Error{Kind: fault.Usage, Cause: "pipe", Op: op, Subject: path, Msg: "a snapshot is read more than once, which a pipe cannot be",
			Hint: "put it into a file first; a file of that name is ./" + path}
	}
	if c, err := spool.Compression(path); err != nil || c == spool.None {
		f, err := dbfile.OpenWith(path, dbfile.Options{Live: o.Live}) // which says best what is wrong
		if err != nil {
			return nil, err
		}
		return &file{File: f}, nil
	}
	s, err := spool.Open(ctx, path, spool.Options{Dir: o.SpoolDir, Op: op}, sink)
	if err != nil {
		return nil, err
	}
	f, err := dbfile.New(path, s, s.Size())
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &file{f, s}, nil
}

func (f *file) packed() *spool.Packed {
	if f.spool == nil {
		return nil
	}
	return &f.spool.Packed
}

// content is a name under which the content can be read until close.
func (f *file) content() string {
	if f.spool == nil {
		return f.Name()
	}
	return f.spool.Path()
}

func (f *file) close() error {
	if f.spool != nil {
		return f.spool.Close()
	}
	return f.File.Close()
}

// fileError turns an error of the operating system about a file into one for
// people.
func fileError(op, path string, err error) error {
	e := fault.OfFile(op, path, "file", err)
	switch {
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ENOTDIR):
		e.Kind = fault.Usage
	case errors.Is(err, syscall.ELOOP):
		e.Kind, e.Cause = fault.Usage, "file_name" // it can never be there
	case errors.Is(err, syscall.EROFS):
		e.Kind, e.Cause = fault.Usage, "read_only"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Cause, e.Hint = "disk_full", "make room there, or give another place"
	}
	return e
}
