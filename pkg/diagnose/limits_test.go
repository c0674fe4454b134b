package diagnose_test

import (
	"strings"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/fault"
)

// Each limit has a name of its own, a source, and can be changed.
func TestLimits(t *testing.T) {
	l := diagnose.DefaultLimits()
	seen := map[string]bool{}
	for _, row := range l.Table() {
		if row.Name == "" || seen[row.Name] || row.Source == "" || row.What == "" || row.Unit == "" || *row.Value != row.Default {
			t.Errorf("limit %+v", row)
		}
		seen[row.Name] = true
		if strings.ToLower(row.Name) != row.Name {
			t.Errorf("%s is not in small letters", row.Name)
		}
	}
	if err := l.Set([]string{"wal_fsync_p99=20ms", "disk_ratio=7"}); err != nil || l.FsyncP99 != 0.02 || l.DiskRatio != 7 {
		t.Errorf("%v, %v, %v", err, l.FsyncP99, l.DiskRatio)
	}
	for _, bad := range []string{"nothing=1", "disk_ratio", "disk_ratio=x", "disk_ratio=-1", "disk_ratio=NaN", "disk_ratio=Inf"} {
		if err := l.Set([]string{bad}); fault.KindOf(err) != fault.Usage {
			t.Errorf("--set %s: %v", bad, err)
		}
	}
}
