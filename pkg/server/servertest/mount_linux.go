package servertest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// MountSmall puts a file system of that many MiB, in memory, on a folder until the
// test ends. It skips the test where that is not allowed.
func MountSmall(tb testing.TB, dir string, mib int) {
	tb.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		tb.Skipf("needs the right to mount a tmpfs (root): %v", err)
	}
	tb.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			tb.Errorf("unmount %s: %v", dir, err)
		}
	})
}
