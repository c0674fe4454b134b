//go:build !linux

package diagnose

import "os"

func datasync(f *os.File) error { return f.Sync() }
