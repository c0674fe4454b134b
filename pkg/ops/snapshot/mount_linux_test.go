package snapshot_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// mountSmall puts a file system of that size on a folder, or skips the test
// where that is not allowed.
func mountSmall(t *testing.T, dir string, mib int) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("needs the right to mount a tmpfs (root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}
