package spool

import (
	"errors"
	"syscall"

	"kvd/pkg/ops/fault"
)

// failed turns an error of the operating system into one for people.
func failed(op, path string, err error) error {
	e := fault.OfFile(op, path, "unreadable_file", err)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Cause, e.Hint = "disk_full", "the content is unpacked there; give a folder with more room with --spool-dir"
	}
	return e
}
