package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"kvd/pkg/ops/fault"
)

// fileError turns an error of the operating system about a file into one for
// people.
func fileError(op, path string, err error) error {
	e := &fault.Error{Kind: fault.Unavailable, Cause: "file", Op: op, Subject: path, Err: err}
	var perr *os.PathError
	var lerr *os.LinkError
	switch {
	case errors.As(err, &perr):
		e.Err = perr.Err
	case errors.As(err, &lerr):
		e.Err = lerr.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Cause = fault.Usage, "no_such_file"
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Cause = fault.Denied, "file_permission"
	case errors.Is(err, syscall.EROFS):
		e.Kind, e.Cause = fault.Usage, "read_only"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Cause, e.Hint = "disk_full", "make room there, or give another place"
	}
	return e
}
