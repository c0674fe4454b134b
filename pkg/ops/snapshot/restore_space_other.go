//go:build !linux

package snapshot

// freeBytes is not known here.
func freeBytes(string) (int64, bool) { return 0, false }

// isMountPoint is not known here.
func isMountPoint(string) bool { return false }
