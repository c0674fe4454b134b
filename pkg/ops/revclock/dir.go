package revclock

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"kvd/pkg/ops/atomicfile"
	"kvd/pkg/ops/fault"
)

// TryDir finds out whether samples can be kept in dir, by making what is missing
// and writing an empty file, since permissions do not tell for every file system.
// Only with stay is a directory that it made still there afterwards. The error is
// of kind Usage; for one that passes by itself see Full.
func TryDir(dir string, stay bool) error {
	var made []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, os.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		made = append(made, d) // the innermost first
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".revisions-*.try"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if !stay {
		for _, d := range made {
			_ = os.Remove(d) // fails where MkdirAll did not come so far
		}
	}
	if err != nil {
		return failed("write", dir, err)
	}
	return nil
}

// Full reports whether err says that a disk is full, which is nothing that is
// wrong with a call.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// SetAside gives the file of a cluster's samples another name, over no other
// file, and returns it: what Load refused may still be of use to somebody.
func SetAside(dir string, cluster uint64, now time.Time) (string, error) {
	path := Path(dir, cluster)
	aside := path + now.UTC().Format(".20060102T150405Z") + ".bad"
	if err := atomicfile.RenameNew(path, aside); err != nil {
		return "", failed("move aside", path, err)
	}
	return aside, nil
}

func failed(op, path string, err error) error {
	hint := "give --state-dir a directory that this user may write"
	if Full(err) {
		hint = "make room on that disk, or give another --state-dir"
	}
	return &fault.Error{Kind: fault.Usage, Cause: "state_dir", Op: op, Subject: path, Err: err, Hint: hint}
}
