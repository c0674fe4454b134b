package diagnose_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"kvd/pkg/diagnose"
	"kvd/pkg/server/servertest"
)

// TestAFullDiskIsNotMeasured: a file that did not get its length is not one that a
// log is written to. What its first writes take says nothing, and is not told.
func TestAFullDiskIsNotMeasured(t *testing.T) {
	dir := t.TempDir()
	servertest.MountSmall(t, dir, 1)
	d, err := diagnose.MeasureDisk(t.Context(), dir, time.Nanosecond)
	if !errors.Is(err, syscall.ENOSPC) || d.Writes != 0 {
		t.Errorf("%d writes were measured, error %v; want none, and that the disk is full", d.Writes, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestMeasureDisk: at least a hundred writes, however short the time, in order.
func TestMeasureDisk(t *testing.T) {
	dir := t.TempDir()
	d, err := diagnose.MeasureDisk(t.Context(), dir, time.Nanosecond)
	if err != nil || d.Writes != 100 || d.P50 <= 0 || d.P50 > d.P99 || d.P99 > d.Max {
		t.Errorf("%+v %v", d, err)
	}
}
