//go:build !linux

package servertest

import "testing"

// MountSmall skips the test: small file systems are made on Linux only.
func MountSmall(tb testing.TB, _ string, _ int) {
	tb.Helper()
	tb.Skip("small disks for tests are made on Linux only")
}
