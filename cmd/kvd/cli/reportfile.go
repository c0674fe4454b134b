package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"kvd/pkg/ops/atomicfile"
	"kvd/pkg/ops/fault"
)

// reportFile is where --report goes: opened before anything is done, so that a
// path that cannot be written is found while nothing has happened yet.
type reportFile struct {
	f    *os.File
	made bool // it was not there before
}

func openReport(path string) (*reportFile, error) {
	if path == "" {
		return &reportFile{}, nil
	}
	_, absent := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Usage, Cause: "report_file", Op: "open report file", Err: err,
			Hint: "give --report a path that can be written; nothing was changed"}
	}
	return &reportFile{f: f, made: errors.Is(absent, fs.ErrNotExist)}, nil
}

// discard closes a file for which there is no report, since nothing was run, and
// takes away the empty one that it has made.
func (r *reportFile) discard() {
	if r.f == nil {
		return
	}
	if info, err := r.f.Stat(); r.made && err == nil && info.Size() == 0 {
		_ = os.Remove(r.f.Name()) // an empty file more is no reason to say anything
	}
	_ = r.close()
}

// append writes the report of a run that ended with an error of the kind ended,
// empty for one that was well. A report that can't be written doesn't change what
// the exit code says of the run, but that not all of it was done.
func (r *reportFile) append(v any, ended fault.Kind) error {
	err := errors.Join(r.write(v), r.close())
	if err == nil {
		return nil
	}
	return &fault.Error{Kind: cmp.Or(ended, fault.Partial), Cause: "report_file", Op: "write report file", Err: err,
		Hint: "the run has ended as shown, and its report is not there: make room, or give another path"}
}

func (r *reportFile) write(v any) error {
	if r.f == nil {
		return nil
	}
	return errors.Join(json.NewEncoder(r.f).Encode(v), atomicfile.Sync(r.f))
}

func (r *reportFile) close() error {
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}
