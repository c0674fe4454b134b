//go:build !linux

package dbfile

import "os"

func openQuietly(path string) (*os.File, error) { return os.Open(path) }

// lockShared knows of no holders: who holds a lock is asked on Linux only.
func lockShared(*os.File) (Holder, bool) { return Holder{}, false }

// HolderOf knows of no holders either.
func HolderOf(*os.File) (Holder, bool) { return Holder{}, false }

// LockedBy knows of none.
func LockedBy(string) []Holder { return nil }

func readOnce(*os.File, int64) bool { return false }

func dropCache(*os.File) {}
