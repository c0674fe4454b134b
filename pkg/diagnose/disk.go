package diagnose

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"kvd/pkg/ops/fault"
)

// DiskTest is how long writes to a disk took.
type DiskTest struct {
	Dir      string
	Writes   int
	Bytes    int // of each
	P50, P99 time.Duration
	Max      time.Duration
}

// What a log writes: small records, each flushed, into a file that has its length
// already (64 MB segments in server/storage/wal).
const (
	diskWrite  = 2300 // bytes: a Kubernetes object's update with what is around it
	diskWrites = 1000
	diskMin    = 100 // after which the time may end it
)

// MeasureDisk writes to a new file in dir as a WAL is written, and flushes each
// write with fdatasync: up to 1000 times, or for as long as limit. The file is
// removed at the end. Whatever else uses the disk is measured with it.
func MeasureDisk(ctx context.Context, dir string, limit time.Duration) (t DiskTest, err error) {
	t = DiskTest{Dir: dir, Bytes: diskWrite}
	f, err := os.CreateTemp(dir, ".kvd-disk-*")
	if err != nil {
		return t, fault.OfFile(op, dir, "disk", err)
	}
	defer func() {
		_ = f.Close()
		if rerr := os.Remove(f.Name()); err == nil && rerr != nil {
			err = fault.OfFile(op, f.Name(), "disk", rerr)
		}
	}()
	if _, err = f.Write(make([]byte, diskWrite*diskWrites)); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return t, fault.OfFile(op, dir, "disk", err)
	}
	var took []time.Duration
	buf := make([]byte, diskWrite)
	for began := time.Now(); len(took) < diskWrites && (len(took) < diskMin || time.Since(began) < limit); {
		if ctx.Err() != nil {
			return t, fault.OfFile(op, dir, "canceled", ctx.Err())
		}
		buf[0]++
		at := time.Now()
		if _, err := f.WriteAt(buf, int64(len(took)*diskWrite)); err != nil {
			return t, fault.OfFile(op, dir, "disk", err)
		}
		if err := datasync(f); err != nil {
			return t, fault.OfFile(op, dir, "disk", err)
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	t.Writes, t.P50, t.P99, t.Max = len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	return t, nil
}

// checkMeasuredDisk compares a measured disk with what etcd needs.
func checkMeasuredDisk() Check {
	return Check{
		Name: "measured disk", Asks: "is the disk fast enough for etcd?", IDs: []string{"KVD-DISK-003"}, Needs: []Need{NeedDisks},
		Look: func(in *Input) ([]Finding, string) {
			var out []Finding
			var good []string
			for _, d := range in.Disks {
				if d.P99.Seconds() < in.Limits.FsyncP99 {
					good = append(good, fmt.Sprintf("%s: p99 %s, p50 %s, of %s", d.Dir, Seconds.Show(d.P99.Seconds()), Seconds.Show(d.P50.Seconds()), counted(d.Writes, "write")))
					continue
				}
				of := func(what string, v time.Duration) Evidence {
					return Evidence{What: what, Value: v.Seconds(), Unit: Seconds, Source: fmt.Sprintf("%d writes of %d bytes, each with fdatasync", d.Writes, d.Bytes), At: in.At}
				}
				out = append(out, Finding{ID: "KVD-DISK-003", Severity: Warning, Subject: d.Dir, Evidence: []Evidence{of("p99", d.P99), of("p50", d.P50), of("longest", d.Max)},
					Summary: fmt.Sprintf("the disk of %s is too slow for etcd: p99 of a flushed write is %s, and it needs %s", d.Dir, Seconds.Show(d.P99.Seconds()), Seconds.Show(in.Limits.FsyncP99)),
					Remedy:  []string{"measure again while nothing else writes there", "an SSD of its own; no network file system; see the virtual machine's limits of writes per second"}})
			}
			return out, list(good)
		},
	}
}
