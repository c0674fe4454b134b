//go:build unix

package server

import (
	"errors"
	"os"
	"syscall"
)

// isLocked says whether somebody holds the lock that bbolt takes on a database.
// It takes the lock for an instant to find out, shared, so that readers of the
// file are not in its way.
func isLocked(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() // which also unlocks
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, nil
}
