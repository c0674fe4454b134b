// Package atomicfile gives a file its name only when it is whole and on disk: it is
// written under another name in the same folder, fsynced, renamed, and the folder
// is fsynced. Whatever happens, a power cut included, there is the old file or the
// new one under the name, never a part.
//
// Errors are those of the operating system; the caller knows what the file is for.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Write puts content under path, over whatever file is there.
func Write(path string, content []byte, perm fs.FileMode) error {
	return write(path, content, perm, Rename)
}

// WriteNew is Write that fails with fs.ErrExist where something has the name.
func WriteNew(path string, content []byte, perm fs.FileMode) error {
	return write(path, content, perm, RenameNew)
}

func write(path string, content []byte, perm fs.FileMode, rename func(from, to string) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), tmpPrefix(path)+"*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(perm), tmp.Sync(), tmp.Close())
	if err == nil {
		err = rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // gone already where only the folder was not fsynced
	}
	return err
}

func tmpPrefix(path string) string { return "." + filepath.Base(path) + ".tmp" }

// Sweep removes what writers of path that were killed have left beside it. It is for
// whoever knows that nobody is writing it.
func Sweep(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tmpPrefix(path)) {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(path), e.Name())))
		}
	}
	return err
}

// Rename gives a file or folder that is on disk already its name, over a file
// that has it. Both names must be in the same folder.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// RenameNew is Rename that fails with fs.ErrExist where something has the name,
// without a moment in which something that comes up meanwhile could be lost.
func RenameNew(from, to string) error {
	if err := renameNew(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// linkAndRemove is RenameNew for files on systems whose rename always replaces.
func linkAndRemove(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// Sync makes what was written last, as far as there is such a thing. A pipe, a terminal
// and /dev/null have none, nor have folders on some file systems of shares: they say that
// the argument is invalid, and there is nothing more to be done then.
func Sync(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// SyncDir makes the names in a folder last.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(Sync(d), d.Close())
}
