package wal

import "golang.org/x/sys/unix"

// roomOf asks a file system; false is that it cannot be written to at all, or does not tell.
func roomOf(dir string) (room, bool) {
	var s unix.Statfs_t
	var i unix.Stat_t
	if unix.Statfs(dir, &s) != nil || unix.Stat(dir, &i) != nil || s.Flags&unix.ST_RDONLY != 0 || s.Blocks == 0 {
		return room{}, false
	}
	return room{bytes: int64(s.Bavail) * int64(s.Bsize), files: s.Files == 0 || s.Ffree > 0, device: uint64(i.Dev)}, true //nolint:gosec,unconvert // far below 2^63; other types elsewhere
}
