package diagnose

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync is what etcd calls on its log (client/pkg/fileutil/sync_linux.go).
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
