package snapshot

import "golang.org/x/sys/unix"

// freeBytes says how much may still be written to the file system of a folder.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:gosec // far below 2^63
}
