package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/ops/atomicfile"
	"kvd/pkg/ops/fault"
)

// loadFiles are where results go. That they can't is found before anything is
// loaded.
type loadFiles struct{ out, html string }

func openLoadFiles(out, html string) (loadFiles, error) {
	if out != "" && filepath.Clean(out) == filepath.Clean(html) {
		return loadFiles{}, &fault.Error{Kind: fault.Usage, Cause: "file_exists", Op: "loadgen", Subject: out, Msg: "--out and --html name the same file"}
	}
	for _, path := range []string{out, html} {
		if path == "" {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			return loadFiles{}, &fault.Error{Kind: fault.Usage, Cause: "file_exists", Op: "loadgen", Subject: path, Msg: "there is something of that name already",
				Hint: "give another name: a result is never written over another"}
		}
		if in, err := os.Stat(filepath.Dir(path)); err != nil || !in.IsDir() {
			return loadFiles{}, &fault.Error{Kind: fault.Usage, Cause: "file_place", Op: "loadgen", Subject: path, Msg: "its folder is not there"}
		}
		if err := takesFiles(filepath.Dir(path)); err != nil {
			return loadFiles{}, &fault.Error{Kind: fault.Usage, Cause: "file_place", Op: "loadgen", Subject: path, Msg: "its folder takes no file", Err: err}
		}
	}
	return loadFiles{out, html}, nil
}

// takesFiles tries whether a file can be made in a folder.
func takesFiles(dir string) error {
	f, err := os.CreateTemp(dir, ".kvd-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// write writes the runs as JSON Lines, and a page about the first.
func (f loadFiles) write(runs []*result.Run, judged []result.Judged) error {
	return errors.Join(writeFile(f.out, func(b *bytes.Buffer) error {
		for _, r := range runs {
			if err := result.Write(b, r); err != nil {
				return err
			}
		}
		return nil
	}), writeFile(f.html, func(b *bytes.Buffer) error {
		return result.WritePage(b, result.NewReport(runs[0], judged, true))
	}))
}

func writeFile(path string, fill func(*bytes.Buffer) error) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	err := fill(&b)
	if err == nil {
		err = atomicfile.WriteNew(path, b.Bytes(), 0o644)
	}
	if err != nil {
		return fault.OfFile("write", path, "file_write", err)
	}
	return nil
}

// writeComparison writes a page about two runs.
func (f loadFiles) writeComparison(c result.Comparison, a, b *result.Run) error {
	return writeFile(f.html, func(w *bytes.Buffer) error {
		return result.WriteComparisonPage(w, c, result.NewReport(a, nil, true), result.NewReport(b, nil, true))
	})
}
