package dbfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kvd/pkg/ops/fault"
)

// Holder is a process that holds a lock on a file.
type Holder struct {
	PID     int    // 0 where the system does not say
	Command string // its command line, shortened; empty where it cannot be read
}

// String names the process as well as is known.
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "another process"
	case h.Command == "":
		return fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("process %d (%s)", h.PID, h.Command)
}

// diskFile is an open file with what has to be undone at its end.
type diskFile struct {
	file   *os.File
	holder *Holder // a running server, where Options.Live let it be
	open   bool    // no lock of ours keeps a server from writing to it
	cold   bool    // it was not in the page cache before, and is dropped from it at the end
}

func openDisk(path string, o Options) (*diskFile, int64, error) {
	file, err := openQuietly(path)
	if err != nil {
		return nil, 0, openError(path, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		kind, what := "not_a_file", "no regular file"
		e := &fault.Error{Kind: fault.Usage, Op: "open", Subject: path}
		if info.IsDir() {
			kind, what, e.Hint = string(KindDirectory), "a directory", KindDirectory.hint()
		}
		e.Cause, e.Msg = kind, what
		err = e
	}
	if err != nil {
		file.Close() //nolint:errcheck // nothing was written
		return nil, 0, err
	}
	d := &diskFile{file: file, open: o.NoLock}
	lock := lockShared
	if o.NoLock {
		lock = HolderOf
	}
	if holder, held := lock(file); held {
		if !o.Live && !o.NoLock {
			file.Close() //nolint:errcheck // nothing was written
			return nil, 0, inUse(path, holder)
		}
		d.holder, d.open = &holder, true
	}
	d.cold = !d.open && readOnce(file, info.Size())
	return d, info.Size(), nil
}

func (d *diskFile) close() error {
	if d.cold {
		dropCache(d.file)
	}
	return d.file.Close()
}

func inUse(path string, h Holder) error {
	return &fault.Error{
		Kind: fault.Refused, Cause: "file_in_use", Op: "open", Subject: path, Msg: "in use by " + h.String(),
		Hint: "`kvd snapshot save` takes a consistent copy of a running member; --live reads the file as it is, which may be torn",
	}
}

// shortCommand makes a word or two of /proc/PID/cmdline: the program, and the
// subcommand if there is one. Flags are left out, since some carry secrets.
func shortCommand(cmdline string) string {
	args := strings.Split(strings.TrimRight(cmdline, "\x00"), "\x00")
	short := filepath.Base(args[0])
	if len(args) > 1 && args[1] != "" && !strings.HasPrefix(args[1], "-") && len(args[1]) < 20 {
		short += " " + args[1]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, short)
}
