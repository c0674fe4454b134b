package ops

import (
	"context"

	"kvd/pkg/ops/cluster"
)

// proveTTL is the life of the lease of the proof, in seconds, in case it cannot
// be revoked.
const proveTTL = 10

// proveWrite proves that a member takes writes that cost: a lease is granted
// through it, charged against its quota as a put is, and revoked. Nothing is left
// in the key space.
func proveWrite(ctx context.Context, client *cluster.Client, op string, m cluster.Member) error {
	mc, err := client.Member(m.ID)
	if err != nil {
		return err
	}
	if err := mc.Connect(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, client.Config().CommandTimeout)
	defer cancel()
	lease, err := mc.Etcd().Grant(ctx, proveTTL)
	if err != nil {
		return mc.Explain(ctx, op, err)
	}
	_, err = mc.Etcd().Revoke(ctx, lease.ID)
	return mc.Explain(ctx, op, err)
}
