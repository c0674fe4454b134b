package servertest

import (
	"strings"
	"testing"
	"time"
)

// WaitSettled waits until every member has written its storage version, the last
// record that a new member of etcd 3.6 or later writes on its own. It does so once it
// has learned the cluster's version, which can be after it has answered its first
// request (monitorStorageVersion in etcdserver/server.go): a test that looks at what
// a file has, beside keys, would otherwise meet two states. Until then the member says
// that it stores as 3.5 does (UnsafeDetectSchemaVersion in storage/schema/schema.go).
func (c *Cluster) WaitSettled(tb testing.TB) {
	tb.Helper()
	ctx := Context(tb, 30*time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	cli := c.Client(tb)
	for i := range c.Len() {
		for {
			status, err := cli.Status(ctx, c.Endpoint(i))
			if err == nil && status.StorageVersion != "" && minor(status.StorageVersion) == minor(status.Version) {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				tb.Fatalf("%s has not written its storage version: %v", c.Name(i), err)
			}
		}
	}
}

// minor is a version without its last part.
func minor(version string) string { return version[:max(0, strings.LastIndexByte(version, '.'))] }
