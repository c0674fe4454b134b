package snapshot

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes the lock on a file without waiting, and says whether it has it.
// A file system that has no such locks has no other holder either.
func lockFile(f *os.File) bool { return !errors.Is(tryLock(f), unix.EWOULDBLOCK) }

// tryLock is lockFile for whoever must know that nobody else has the lock.
func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// reserve sets room aside, so that a full disk is found before the member is read.
// The file does not get longer. A file system that cannot do so is taken on trust.
func reserve(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}
