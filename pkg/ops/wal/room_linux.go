package wal

import "golang.org/x/sys/unix"

// roomOf asks a file system; false is that it cannot be written to at all, or does not tell.
func roomOf(dir string) (room, bool) {
	var s unix.Statfs_t
	var i unix.Stat_t
	if unix.Statfs(dir, &s) != nil || unix.Stat(dir, &i) != nil || s.Flags&unix.ST_RDONLY != 0 || s.Blocks == 0 {
		return room{}, false
	}
	return room{bytes: int64(blocksFor(i.Uid, &s)) * int64(s.Bsize), files: s.Files == 0 || s.Ffree > 0, device: uint64(i.Dev)}, true //nolint:gosec,unconvert // far below 2^63; other types elsewhere
}

// blocksFor are those that a server may write to that runs as who owns its folder: what
// is reserved for root (5 % with mkfs.ext4) an etcd of kubeadm or k3s has, which is root's.
func blocksFor(owner uint32, s *unix.Statfs_t) uint64 {
	if owner == 0 {
		return s.Bfree
	}
	return s.Bavail
}
