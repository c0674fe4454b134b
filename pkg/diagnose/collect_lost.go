package diagnose

import (
	"bytes"
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
)

// lostShown is how many leases are asked for that seem not to exist.
const lostShown = 5

// lostLeases looks at the leases that keys of the sample are on and that the list of
// leases had not. That list is older than the sample: a lease can have been granted
// since, and one that ends takes its keys along a moment later. So the leader is asked
// for each, and for the key after that.
func (c *collector) lostLeases(ctx context.Context, mc *cluster.MemberClient) error {
	for _, l := range c.in.Keys.Leased {
		if c.in.Leases.ids[l.Lease] || len(c.in.Leases.Lost) >= lostShown {
			continue
		}
		lost, err := c.isLost(ctx, mc, clientv3.LeaseID(l.Lease), string(l.Key))
		if err != nil {
			return err
		}
		if lost {
			c.in.Leases.Lost = append(c.in.Leases.Lost, LostLease{cluster.FormatID(uint64(l.Lease)), bytes.Clone([]byte(l.Key)), l.Keys}) //nolint:gosec // bits, not a number
		}
	}
	return nil
}

// isLost reports that a leader has no such lease, and its key still is on it a while later.
func (c *collector) isLost(ctx context.Context, mc *cluster.MemberClient, id clientv3.LeaseID, key string) (bool, error) {
	const revoking = 300 * time.Millisecond // a lease's keys go in the same entry, with what it takes to apply that
	ttl, err := mc.Etcd().TimeToLive(ctx, id)
	c.asked("LeaseLeases, LeaseTimeToLive", 1)
	if err != nil || ttl.TTL >= 0 {
		return false, err
	}
	if err := pause(ctx, revoking); err != nil {
		return false, err
	}
	r, err := mc.Get(ctx, key)
	c.asked("serializable range from "+mc.Label(), 1)
	return err == nil && len(r.Kvs) == 1 && r.Kvs[0].Lease == int64(id), err
}
