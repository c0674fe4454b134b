package wal

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A file system that is full for all others is not so for root, as who etcd mostly runs.
func TestRoomThatIsReserved(t *testing.T) {
	t.Parallel()
	s := &unix.Statfs_t{Blocks: 1000, Bfree: 50, Bavail: 0}
	if root, other := blocksFor(0, s), blocksFor(1000, s); root != 50 || other != 0 {
		t.Errorf("%d blocks for root and %d for another, want 50 and 0", root, other)
	}
}
