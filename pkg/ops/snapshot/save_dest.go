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

// partSuffix is what the name of a snapshot ends with that is not whole yet. A
// later save to the same place takes such a file, left by a process that was
// killed, for its own.
const partSuffix = ".kvd.part"

// CheckDest refuses a destination that a save could not be written to in the end:
// to be asked before anything else is done.
func (o SaveOptions) CheckDest() error {
	if err := o.checkNames(); err != nil || o.Dest == Stdout {
		return err
	}
	p, err := createPart(o.Dest)
	if err != nil {
		return err
	}
	return p.drop()
}

// checkNames looks for what has the names that the save is to give.
func (o SaveOptions) checkNames() error {
	there := false
	if o.Dest != Stdout {
		info, err := os.Lstat(o.Dest)
		there = err == nil
		bad := &fault.Error{Kind: fault.Usage, Cause: "destination", Op: opSave, Subject: o.Dest}
		switch {
		case errors.Is(err, fs.ErrNotExist) && !os.IsPathSeparator(o.Dest[len(o.Dest)-1]):
		case err != nil:
			return fileError(opSave, o.Dest, err)
		case info.IsDir():
			bad.Msg, bad.Hint = "it is a folder", "name a file in it"
			return bad
		case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
			bad.Msg, bad.Hint = "it is no regular file", "to write to a pipe give "+Stdout
			return bad
		case !o.Force:
			return exists(o.Dest)
		}
	}
	if o.Manifest == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(o.Manifest)); err != nil {
		return fileError(opSave, o.Manifest, err)
	}
	switch info, err := os.Lstat(o.Manifest); {
	case err != nil:
		return nil // it can be made
	case info.IsDir():
		return &fault.Error{Kind: fault.Usage, Cause: "destination", Op: opSave, Subject: o.Manifest, Msg: "it is a folder, where the manifest goes",
			Hint: "name another file with --manifest, or --no-manifest"}
	case o.Force:
		return nil
	}
	// A manifest without its snapshot is of no use to anybody.
	if _, err := ReadManifest(o.Manifest); err == nil && !there && o.Manifest == ManifestPath(o.Dest) {
		return nil
	}
	return exists(o.Manifest)
}

func exists(path string) error {
	return &fault.Error{Kind: fault.Refused, Cause: "file_exists", Op: opSave, Subject: path, Msg: "it is there already, and would be overwritten",
		Hint: "give another name, or --force"}
}

// part is a snapshot that has not got its name yet. As long as it is open no other
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
