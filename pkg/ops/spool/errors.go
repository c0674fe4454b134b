package spool

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"kvd/pkg/ops/fault"
)

// failed turns an error of the operating system into one for people.
func failed(op, path string, err error) error {
	e := &fault.Error{Kind: fault.Unavailable, Cause: "unreadable_file", Op: op, Subject: path, Err: err}
	var perr *os.PathError
	if errors.As(err, &perr) {
		e.Err = perr.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Cause = fault.Usage, "no_such_file"
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Cause = fault.Denied, "file_permission"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Cause, e.Hint = "disk_full", "the content is unpacked there; give a folder with more room with --spool-dir"
	}
	return e
}
