package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"kvd/pkg/ops/atomicfile"
	"kvd/pkg/ops/fault"
)

// Stdout as a destination writes the snapshot to a pipe.
const Stdout = "-"

// partSuffix is what the name of a file ends with that is not whole yet. A
// later save to the same place takes such a file, left by a process that was
// killed, for its own.
const partSuffix = ".kvd.part"

// CheckDest refuses a destination that a save could not be written to in the end:
// to be asked before anything else is done.
func (o SaveOptions) CheckDest() error {
	if err := o.checkNames(); err != nil {
		return err
	}
	p, err := o.createParts()
	return errors.Join(err, p.drop())
}

// parts are what a save writes to; nil where it does not.
type parts struct{ snapshot, manifest *part }

// createParts makes both before anything is read, so that what is in their way is
// found then. With an error there may be one of them.
func (o SaveOptions) createParts() (p parts, err error) {
	if o.Dest != Stdout {
		if p.snapshot, err = createPart(o.Dest); err != nil {
			return p, err
		}
	}
	if o.Manifest != "" {
		p.manifest, err = createPart(o.Manifest)
	}
	return p, err
}

func (p parts) drop() error { return errors.Join(p.snapshot.drop(), p.manifest.drop()) }

// part is a file that has not got its name yet. As long as it is open no other
// save to the same place begins.
type part struct {
	*os.File

	dest  string
	named bool // it has its name: what is under the other one is not ours
}

// createPart makes the file, in the place of one that a process that was killed
// has left behind.
func createPart(dest string) (*part, error) {
	path := dest + partSuffix
	busy := &fault.Error{Kind: fault.Refused, Cause: "file_in_use", Op: opSave, Subject: path, Msg: "another save is writing to it",
		Hint: "wait for it, or give another name"}
	for range 3 {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case err == nil:
			if !lockFile(f) {
				return nil, errors.Join(busy, f.Close())
			}
			return &part{File: f, dest: dest}, nil
		case !errors.Is(err, fs.ErrExist):
			return nil, fileError(opSave, path, err)
		}
		// Not emptied but removed: a link may have made it the snapshot itself.
		if err := removeStale(path); err != nil {
			return nil, err
		}
	}
	return nil, busy
}

// removeStale removes a file that nobody has locked. Nil also means that it was
// gone meanwhile.
func removeStale(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fileError(opSave, path, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if !lockFile(f) {
		return &fault.Error{Kind: fault.Refused, Cause: "file_in_use", Op: opSave, Subject: path, Msg: "another save is writing to it",
			Hint: "wait for it, or give another name"}
	}
	opened, err := f.Stat()
	named, nerr := os.Lstat(path)
	if err != nil || nerr != nil || !os.SameFile(opened, named) {
		return nil // another save has replaced it, see there
	}
	if err := os.Remove(path); err != nil {
		return fileError(opSave, path, err)
	}
	return nil
}

// commit gives the file its name. It must be on disk already.
func (p *part) commit(force bool) error {
	rename := atomicfile.RenameNew
	if force {
		rename = atomicfile.Rename
	}
	err := rename(p.Name(), p.dest)
	if errors.Is(err, fs.ErrExist) {
		return exists(p.dest)
	}
	if err != nil {
		return fileError(opSave, p.dest, err)
	}
	p.named = true
	return nil
}

// drop removes the file if it has not got its name, and lets other saves begin.
func (p *part) drop() error {
	if p == nil {
		return nil
	}
	var err error
	if !p.named {
		err = os.Remove(p.Name())
	}
	if err = errors.Join(err, p.Close()); err != nil {
		return fileError("remove", p.Name(), err)
	}
	return nil
}

// spoolDir is where the snapshot goes first if it cannot be checked where it
// ends: beside that, where there should be room, or where the user says.
func (o SaveOptions) spoolDir() string {
	if o.SpoolDir == "" && o.Dest != Stdout {
		return filepath.Dir(o.Dest)
	}
	return o.SpoolDir
}
