package snapshot

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freeBytes says how much may still be written to the file system of a folder.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:gosec // far below 2^63
}

// isMountPoint says whether a folder is on another device than the one it is in. Nothing
// is put into its place then, and nothing is renamed into it from beside it.
func isMountPoint(dir string) bool {
	var own, parent unix.Stat_t
	return unix.Lstat(dir, &own) == nil && unix.Stat(filepath.Dir(dir), &parent) == nil && own.Dev != parent.Dev
}
