package cli

import (
	"encoding/json"
	"errors"
	"os"

	"kvd/pkg/ops/fault"
)

// reportFile is where --report goes: opened before anything is done, so that a
// path that cannot be written is found while nothing has happened yet.
type reportFile struct{ f *os.File }

func openReport(path string) (*reportFile, error) {
	if path == "" {
		return &reportFile{}, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Usage, Cause: "report_file", Op: "open report file", Err: err,
			Hint: "give --report a path that can be written; nothing was changed"}
	}
	return &reportFile{f: f}, nil
}

func (r *reportFile) append(v any) error { return errors.Join(r.write(v), r.close()) }

func (r *reportFile) write(v any) error {
	if r.f == nil {
		return nil
	}
	return errors.Join(json.NewEncoder(r.f).Encode(v), r.f.Sync())
}

func (r *reportFile) close() error {
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}
