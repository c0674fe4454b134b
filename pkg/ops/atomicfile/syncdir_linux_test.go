package atomicfile_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"kvd/pkg/ops/atomicfile"
)

// procfs is one of the file systems that cannot fsync a folder.
func TestSyncDirWhereThereIsNone(t *testing.T) {
	d, err := os.Open("/proc/self")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Sync(); !errors.Is(err, syscall.EINVAL) {
		t.Skipf("this kernel answers %v", err)
	}
	if err := atomicfile.SyncDir("/proc/self"); err != nil {
		t.Errorf("a folder without fsync: %v", err)
	}
	if err := atomicfile.SyncDir("/proc/self/none"); err == nil {
		t.Error("a folder that is not there")
	}
}
