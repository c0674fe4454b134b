package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"kvd/pkg/ops/fault"
)

// Segment is one file of the log, as its name and size say.
type Segment struct {
	Name  string `json:"name"`
	Seq   uint64 `json:"sequence"`
	Index uint64 `json:"first_index"` // of the entries in it, if there are any
	Bytes int64  `json:"bytes"`       // of the file, which is made larger than what is written
}

// Causes of the errors of Find.
const (
	CauseNoWAL     = "no_wal"        // a folder without a log
	CauseAmbiguous = "ambiguous_wal" // a member without one, and a log beside it
)

// Find returns the folder that holds the log: that in member/wal of a data directory,
// in wal of its member folder, or dir itself. What lies beside a member's own log, as a
// copy of it does, is never taken for it. Without a log the error is of kind Unavailable
// with CauseNoWAL; of a member without one, beside which one lies, it is of kind Usage.
func Find(dir string) (string, error) {
	if err := isFolder(dir); err != nil {
		return "", err
	}
	for _, sub := range []string{filepath.Join("member", "wal"), "wal", ""} {
		path := filepath.Join(dir, sub)
		found, err := hasSegment(path)
		if err != nil {
			return "", err
		}
		if !found {
			continue
		}
		member, err := os.Stat(filepath.Join(dir, "member"))
		if err == nil && member.IsDir() && sub != filepath.Join("member", "wal") {
			return "", &fault.Error{Kind: fault.Usage, Cause: CauseAmbiguous, Op: "read the WAL", Subject: dir,
				Msg:  "there is no segment in its member/wal, but in " + path + ", which a server reads only if its --wal-dir names it",
				Hint: fmt.Sprintf("name the folder of the log itself: %s; for `kvd wal verify` with `--db %s`", path, filepath.Join(dir, "member", "snap", "db"))}
		}
		return path, nil
	}
	if lost := lostFolder(dir); lost != "" {
		return "", &fault.Error{Kind: fault.Unavailable, Cause: CauseNoWAL, Op: "read the WAL", Subject: dir, Msg: lost, Hint: hintFolder}
	}
	return "", &fault.Error{Kind: fault.Unavailable, Cause: CauseNoWAL, Op: "read the WAL", Subject: dir,
		Msg:  "no segment (SEQUENCE-INDEX.wal) in it, in wal or in member/wal",
		Hint: "name a data directory, its member folder, or a WAL folder; a server with --wal-dir has its log elsewhere"}
}

// isFolder is the error for a DIR that is none, or a file of one.
func isFolder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		if lostLink(dir) != "" {
			return nil // of which more is said
		}
		e := fault.OfFile("read the WAL", dir, "unreadable", err)
		switch e.Kind {
		case fault.Usage:
			e.Hint = "name a data directory, its member folder, or a WAL folder"
		case fault.Denied:
			e.Hint = hintOwner
		}
		return e
	}
	if info.IsDir() {
		return nil
	}
	return &fault.Error{Kind: fault.Usage, Cause: CauseNoWAL, Op: "read the WAL", Subject: dir, Msg: "it is a file",
		Hint: "name the folder that it is in: " + filepath.Dir(dir)}
}

// hintOwner is for files that may not be read.
const hintOwner = "etcd's files belong to the user that it runs as: be that user, or root"

// hasSegment reports whether there is a folder with a segment.
func hasSegment(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	case err != nil:
		return false, unreadable(path, err)
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		_, _, ok := parseName(e.Name())
		return ok
	}), nil
}

// Segments lists the segments of a WAL folder in order. Other files in it are
// left out, as etcd does.
func Segments(dir string) ([]Segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	var out []Segment
	for _, e := range entries {
		seq, index, ok := parseName(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // purged by the server since
		}
		if err != nil {
			return nil, unreadable(filepath.Join(dir, e.Name()), err)
		}
		if info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0 { // to open a pipe would wait for ever
			return nil, unreadable(filepath.Join(dir, e.Name()), errors.New("no regular file"))
		}
		out = append(out, Segment{Name: e.Name(), Seq: seq, Index: index, Bytes: info.Size()})
	}
	slices.SortFunc(out, func(a, b Segment) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// parseName reads SEQUENCE-INDEX.wal as etcd does, which is not strict: it takes
// fewer digits, and text between .wal and a second .wal (parseWALName in
// server/storage/wal/util.go). What it takes for a segment is one.
func parseName(name string) (seq, index uint64, ok bool) {
	if !strings.HasSuffix(name, ".wal") {
		return 0, 0, false
	}
	_, err := fmt.Sscanf(name, "%016x-%016x.wal", &seq, &index)
	return seq, index, err == nil
}

func unreadable(path string, err error) error {
	var perr *os.PathError
	if errors.As(err, &perr) && filepath.Base(perr.Path) == filepath.Base(path) {
		err = perr.Err // the subject says which
	}
	e := &fault.Error{Kind: fault.Unavailable, Cause: "unreadable", Op: "read the WAL", Subject: path, Err: err}
	if errors.Is(err, fs.ErrPermission) {
		e.Kind, e.Cause, e.Hint = fault.Denied, "permission", hintOwner
	} else {
		e.Hint = unreadableHint(path)
	}
	return e
}
