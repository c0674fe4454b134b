package ops

import (
	"context"
	"fmt"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/keyspace"
)

// A lease is a record of its own in the file, whether keys are on it or not: some
// 40 bytes with what bbolt keeps of it, in pages that are full by half as long as
// leases are appended, and nearly full after a defragmentation. 106 000 leases were
// seen to take 79 bytes each before one, and 44 after.
const (
	leaseBytes      = 62
	leaseBytesError = 18
)

// leasesWorth is the share of what is in use from which leases are set apart.
const leasesWorth = 0.01

// LeaseContent is what the leases take in a file: that, by their number.
type LeaseContent struct {
	Count int64             `json:"count"`
	Bytes keyspace.Estimate `json:"bytes"`
}

// leaseContent estimates it; nil where it is next to nothing of what is in use.
func leaseContent(leases, inUse int64) *LeaseContent {
	if leases == 0 || float64(leases*leaseBytes) < leasesWorth*float64(inUse) {
		return nil
	}
	return &LeaseContent{Count: leases, Bytes: keyspace.Estimate{Bytes: min(float64(leases*leaseBytes), float64(inUse)), Error: float64(leases * leaseBytesError)}}
}

// countLeases asks a member how many leases there are: 0 where it does not tell.
func countLeases(ctx context.Context, client *cluster.Client, m cluster.Member) int64 {
	mc, err := client.Member(m.ID)
	if err != nil || mc.Connect(ctx) != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, client.Config().CommandTimeout)
	defer cancel()
	r, err := mc.Etcd().Leases(ctx)
	if err != nil {
		return 0
	}
	return int64(len(r.Leases))
}

// leasesHelp is what helps against a file full of leases.
const leasesHelp = "`kvd lease revoke --without-keys --dry-run` shows how many nobody uses, and without --dry-run they go, also while NOSPACE is raised; " +
	"find the client that grants one for each request (`kvd wal dump DATA-DIR --type lease_grant` shows when, and as which user)"

func (l LeaseContent) text() string {
	return fmt.Sprintf("%d leases, about %s: a compaction does not touch them, and a defragmentation packs their pages and no more", l.Count, binary(int64(l.Bytes.Bytes)))
}
