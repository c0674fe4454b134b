package fault

import (
	"errors"
	"io/fs"
	"os"
)

// OfFile makes of an error of the operating system one for people: without the
// path that Subject names, and of kind Usage (cause "no_such_file") where the file
// is not there, Denied ("file_permission") where it may not be touched. Anything
// else is of kind Unavailable with the cause given, for the caller to know better.
func OfFile(op, path, cause string, err error) *Error {
	e := &Error{Kind: Unavailable, Cause: cause, Op: op, Subject: path, Err: err}
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
		e.Kind, e.Cause = Usage, "no_such_file"
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Cause = Denied, "file_permission"
	}
	return e
}
