package diagnose

import (
	"context"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// endedAfter is how long a process that has logged its end may take to be gone.
const endedAfter = time.Second

// outlived notes a member that was there before it was read from, did not give what it
// was asked for, and is gone: etcd ends where a record is missing that its index has.
func (c *collector) outlived(ctx context.Context, m cluster.Member, mc *cluster.MemberClient) {
	if c.o.SampleBytes <= 0 || c.in.Keys != nil && (c.in.Writes != nil || c.o.Revisions <= 0) {
		return
	}
	if pause(ctx, endedAfter) != nil {
		return
	}
	_, err := mc.Status(ctx)
	if fault.CauseOf(err) != cluster.CauseConnectionRefused {
		return
	}
	reading := "its keys"
	if c.in.Keys != nil {
		reading = "its latest writes"
	}
	c.in.Ended = &Ended{Member: m, Reading: reading, Err: err}
}
