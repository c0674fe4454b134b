package diagnose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/diff"
	"kvd/pkg/ops/keyspace"
	"kvd/pkg/ops/progress"
)

// hashed are the members that are asked for their hash, followers first, and the revision
// that all of them have. A learner is not asked: one that catches up is at a revision that
// the others may have compacted, and then none could be compared.
func hashed(v cluster.View) (members []cluster.Member, rev int64) {
	for _, m := range v.FollowersFirst() {
		if m.Status == nil || m.Learner {
			continue
		}
		if members = append(members, m); rev == 0 || m.Status.Revision < rev {
			rev = m.Status.Revision
		}
	}
	return members, rev
}

// hashes asks one member after the other.
func (c *collector) hashes(ctx context.Context, v cluster.View) {
	members, rev := hashed(v)
	for _, m := range members {
		mc, err := c.client.Member(m.ID)
		if err != nil {
			c.missErr(NeedHashes, name(m), err)
			continue
		}
		c.sink.Event(progress.Event{Op: op, Subject: m.Label(), Phase: "computing its hash",
			Note: fmt.Sprintf("it answers nobody else for about %s", Seconds.Show(StallOf(m)))})
		ctx, cancel := context.WithTimeout(ctx, max(c.client.Config().CommandTimeout, time.Duration(10*StallOf(m)*float64(time.Second))))
		c.asked("HashKV", 1)
		h, err := mc.HashKV(ctx, rev)
		cancel()
		if err != nil {
			c.missErr(NeedHashes, name(m), err)
			continue
		}
		c.in.Hashes = append(c.in.Hashes, Hash{Member: m, Hash: h.Hash, Revision: rev, Compact: h.CompactRevision})
	}
	if odd, ok := minority(c.in.Hashes); ok {
		c.differing(ctx, odd, rev)
	}
}

// hashRate is how fast a member hashes, in bytes a second: what was measured on a
// slow core, so that the stall is rather shorter than said.
const hashRate = 100 << 20

// StallOf predicts how long a member answers nobody while it computes its hash, in
// seconds.
func StallOf(m cluster.Member) float64 {
	if m.Status == nil {
		return 0
	}
	return float64(m.Status.DBInUse) / hashRate
}

// differingMax is how many keys are named.
const differingMax = 10

// errEnough ends a comparison that has named enough keys.
var errEnough = errors.New("enough")

// differing finds keys that one of the odd members holds otherwise than another
// member does, at one revision. It stops where it has enough.
func (c *collector) differing(ctx context.Context, odd []cluster.Member, rev int64) {
	base := c.in.Hashes[0].Member
	for _, h := range c.in.Hashes {
		if h.Hash != hashOf(c.in.Hashes, odd[0]) {
			base = h.Member
		}
	}
	a, errA := c.client.Member(odd[0].ID)
	b, errB := c.client.Member(base.ID)
	if errA != nil || errB != nil {
		return // they were just asked for their hashes
	}
	o := keyspace.LiveOptions{Layout: c.o.Layout, Timeout: c.client.Config().CommandTimeout, Op: op, Sink: progress.Discard}
	side := func(m *cluster.MemberClient) diff.Side { return diff.Side{Source: keyspace.OpenLive(m, o), Rev: rev} }
	_, err := diff.Run(ctx, side(a), side(b), diff.Options{Layout: c.o.Layout, By: diff.ByResource}, func(e *diff.Entry) error {
		if len(c.in.Differing) == differingMax {
			return errEnough
		}
		c.in.Differing = append(c.in.Differing, DifferingKey{bytes.Clone(e.Key), otherwise(e, name(odd[0]))})
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		c.missErr(NeedHashes, name(odd[0]), err)
	}
	c.asked("comparison of two members' keys", 1)
}

func hashOf(all []Hash, m cluster.Member) uint32 {
	for _, h := range all {
		if h.Member.ID == m.ID {
			return h.Hash
		}
	}
	return 0
}

// otherwise says in what the states of a key differ.
func otherwise(e *diff.Entry, odd string) string {
	switch {
	case e.B == nil:
		return "only on " + odd
	case e.A == nil:
		return "not on " + odd
	case e.ValueChanged:
		return "other value"
	case e.LeaseChanged:
		return "other lease"
	case e.A.Version != e.B.Version:
		return fmt.Sprintf("version %d and %d", e.A.Version, e.B.Version)
	}
	return fmt.Sprintf("last changed at revision %d and %d", e.A.ModRevision, e.B.ModRevision)
}
