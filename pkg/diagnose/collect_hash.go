package diagnose

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/progress"
)

// hashes asks one member after the other, followers first.
func (c *collector) hashes(ctx context.Context, v cluster.View) {
	rev := int64(0)
	for _, m := range v.Answered() {
		if rev == 0 || m.Status.Revision < rev {
			rev = m.Status.Revision
		}
	}
	for _, m := range v.FollowersFirst() {
		if m.Status == nil || m.Learner {
			continue
		}
		mc, err := c.client.Member(m.ID)
		if err != nil {
			c.missErr(NeedHashes, name(m), err)
			continue
		}
		c.sink.Event(progress.Event{Op: op, Subject: m.Label(), Phase: "computing its hash",
			Note: fmt.Sprintf("it answers nobody else for about %s", Seconds.Show(StallOf(m)))})
		ctx, cancel := context.WithTimeout(ctx, max(c.client.Config().CommandTimeout, time.Duration(10*StallOf(m)*float64(time.Second))))
		began := time.Now()
		h, err := mc.HashKV(ctx, rev)
		cancel()
		if err != nil {
			c.missErr(NeedHashes, name(m), err)
			continue
		}
		c.in.Hashes = append(c.in.Hashes, Hash{m, h.Hash, rev, h.CompactRevision, time.Since(began)})
	}
	c.asked("HashKV", len(c.in.Hashes))
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

const (
	differingMax = 10       // keys that are named
	differingRow = 500      // keys of one page
	differingCap = 64 << 20 // bytes that are read of each member
)

// differing finds keys that one of the odd members holds otherwise than another
// member does, page by page at one revision. It stops where it has enough.
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
		return
	}
	x, y := &pages{mc: a, rev: rev}, &pages{mc: b, rev: rev}
	for len(c.in.Differing) < differingMax {
		k, l, err := x.head(ctx), y.head(ctx), error(nil)
		if err = firstError(x.err, y.err); err != nil || k == nil && l == nil || x.read > differingCap {
			break
		}
		switch {
		case l == nil || k != nil && bytes.Compare(k.Key, l.Key) < 0:
			c.in.Differing = append(c.in.Differing, DifferingKey{k.Key, "only on " + name(odd[0])})
			x.next()
		case k == nil || bytes.Compare(k.Key, l.Key) > 0:
			c.in.Differing = append(c.in.Differing, DifferingKey{l.Key, "not on " + name(odd[0])})
			y.next()
		default:
			if what := otherwise(k, l); what != "" {
				c.in.Differing = append(c.in.Differing, DifferingKey{k.Key, what})
			}
			x.next()
			y.next()
		}
	}
	c.asked("serializable ranges to find the keys that differ", x.requests+y.requests)
}

func hashOf(all []Hash, m cluster.Member) uint32 {
	for _, h := range all {
		if h.Member.ID == m.ID {
			return h.Hash
		}
	}
	return 0
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// otherwise says in what two states of a key differ.
func otherwise(a, b *mvccpb.KeyValue) string {
	switch {
	case !bytes.Equal(a.Value, b.Value):
		return "other value"
	case a.Version != b.Version:
		return fmt.Sprintf("version %d and %d", a.Version, b.Version)
	case a.ModRevision != b.ModRevision || a.CreateRevision != b.CreateRevision:
		return fmt.Sprintf("last changed at revision %d and %d", a.ModRevision, b.ModRevision)
	case a.Lease != b.Lease:
		return "other lease"
	}
	return ""
}

// pages reads a member's keys at one revision in order.
type pages struct {
	mc       *cluster.MemberClient
	rev      int64
	page     []*mvccpb.KeyValue
	from     string
	done     bool
	requests int
	read     int64
	err      error
}

// head is the key in hand, nil behind the last.
func (p *pages) head(ctx context.Context) *mvccpb.KeyValue {
	if len(p.page) == 0 && !p.done && p.err == nil {
		if p.from == "" {
			p.from = "\x00"
		}
		r, err := p.mc.Get(ctx, p.from, clientv3.WithFromKey(), clientv3.WithRev(p.rev), clientv3.WithLimit(differingRow))
		p.requests++
		if err != nil {
			p.err = err
			return nil
		}
		p.page, p.done = r.Kvs, !r.More
		if n := len(r.Kvs); n > 0 {
			p.from = string(r.Kvs[n-1].Key) + "\x00"
		}
	}
	if len(p.page) == 0 {
		return nil
	}
	return p.page[0]
}

func (p *pages) next() {
	p.read += int64(len(p.page[0].Key) + len(p.page[0].Value))
	p.page = p.page[1:]
}
