package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// tempPrefix begins the names of the temporary folders, in os.TempDir.
const tempPrefix = "kvd-local-"

// lockName is the file in a temporary folder that is locked as long as the process
// lives that removes the folder when it ends.
const lockName = "lock"

// makeTemp makes a temporary folder, and removes those whose process was killed
// before it could: they hold whole databases. The file is to be closed when the
// folder has been removed.
func makeTemp() (dir string, lock *os.File, err error) {
	sweepTemp()
	if dir, err = os.MkdirTemp("", tempPrefix); err != nil {
		return "", nil, err
	}
	if lock, err = lockDir(dir); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// lockDir gets the file its name only when it is locked, so that nobody finds it
// without. Where there are no locks there is no file either.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName+".new"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if tryLock(f) != nil {
		return f, os.Remove(f.Name())
	}
	return f, os.Rename(f.Name(), filepath.Join(dir, lockName))
}

// sweepTemp removes the folders whose lock nobody holds. Those of members that
// outlive their process (Options.Detach) have none. What cannot be removed stays.
func sweepTemp() {
	all := os.TempDir() // which may have in its name what a pattern has
	locks, err := fs.Glob(os.DirFS(all), tempPrefix+"*/"+lockName)
	if err != nil {
		return
	}
	for _, name := range locks {
		path := filepath.Join(all, name)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // another user's, or gone meanwhile
		}
		if tryLock(f) == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		_ = f.Close()
	}
}

// tryLock takes the lock on a file without waiting. It ends with the file, and is not
// passed on to children.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
