package keyspace

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/wait"
)

// MeasureWriteRate returns how many revisions per second were written while it
// waited for d. It costs two reads of an absent key.
func MeasureWriteRate(ctx context.Context, kv Reader, d time.Duration) (float64, error) {
	if d <= 0 {
		return 0, fault.New(fault.Internal, "a rate needs time to be measured in")
	}
	before, err := kv.Get(ctx, probeKey, clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := wait.For(ctx, d); err != nil {
		return 0, &fault.Error{Kind: fault.Interrupted, Op: "measure the write rate", Err: err}
	}
	after, err := kv.Get(ctx, probeKey, clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return float64(after.Header.Revision-before.Header.Revision) / time.Since(began).Seconds(), nil
}
