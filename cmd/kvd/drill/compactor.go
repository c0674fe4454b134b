package drill

import (
	"context"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/kube/keys"
)

// compactor plays the one that is built into every kube-apiserver: each five
// minutes it writes into the marker how far it compacts next, and compacts to
// what it wrote the round before. Whoever writes first does the round.
type compactor struct {
	version int64 // of the marker, as last seen
	rev     int64 // head of the last round
}

// round is one round. It returns the revision it compacted to, 0 in the first
// round, which only leaves a marker. Errors are etcd's.
func (c *compactor) round(ctx context.Context, etcd *clientv3.Client) (int64, error) {
	resp, err := etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.Version(keys.CompactRevKey), "=", c.version)).
		Then(clientv3.OpPut(keys.CompactRevKey, strconv.FormatInt(c.rev, 10))).
		Else(clientv3.OpGet(keys.CompactRevKey)).
		Commit()
	if err != nil {
		return 0, err
	}
	to := c.rev
	c.rev = resp.Header.Revision
	if !resp.Succeeded {
		c.version = resp.Responses[0].GetResponseRange().Kvs[0].Version
		return 0, nil
	}
	c.version++
	if to == 0 {
		return 0, nil
	}
	_, err = etcd.Compact(ctx, to)
	return to, err
}
