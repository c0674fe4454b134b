package drill

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
)

// picture is everything that clients see of a cluster at one revision.
type picture struct {
	revision int64
	keys     map[string]*mvccpb.KeyValue
	leases   map[clientv3.LeaseID]leased
}

// leased is a lease.
type leased struct {
	ttl  int64 // as granted, in seconds
	left int64 // of it, when it was read
	keys []string
}

// takePicture reads all keys through a member, at a revision that is not compacted,
// 0 for the newest, and all leases as they are. It is linearizable. Its errors are
// etcd's.
func takePicture(ctx context.Context, m *cluster.MemberClient, rev int64) (picture, error) {
	p := picture{revision: rev, keys: map[string]*mvccpb.KeyValue{}, leases: map[clientv3.LeaseID]leased{}}
	for from := "\x00"; ; {
		resp, err := m.Etcd().Get(ctx, from, clientv3.WithFromKey(), clientv3.WithLimit(pageKeys), clientv3.WithRev(p.revision))
		if err != nil {
			return p, err
		}
		if p.revision == 0 {
			p.revision = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			p.keys[string(kv.Key)] = kv
			from = string(kv.Key) + "\x00"
		}
		if !resp.More {
			break
		}
	}
	all, err := m.Etcd().Leases(ctx)
	if err != nil {
		return p, err
	}
	for _, l := range all.Leases {
		resp, err := m.Etcd().TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys())
		if err != nil {
			return p, err
		}
		keys := make([]string, 0, len(resp.Keys))
		for _, k := range resp.Keys {
			keys = append(keys, string(k))
		}
		slices.Sort(keys)
		p.leases[l.ID] = leased{ttl: resp.GrantedTTL, left: resp.TTL, keys: keys}
	}
	return p, nil
}

// compare holds what a restored member shows against the picture of before.
func (p picture) compare(member string, now picture) RestoredMember {
	out := RestoredMember{Member: member, Revision: now.revision, Keys: int64(len(now.keys)), Leases: int64(len(now.leases))}
	for key, want := range p.keys {
		switch got := now.keys[key]; {
		case got == nil:
			out.Lost++
		case string(got.Value) == string(want.Value) && got.Version == want.Version && got.Lease == want.Lease &&
			got.CreateRevision == want.CreateRevision && got.ModRevision == want.ModRevision:
			out.Equal++
		default:
			out.Otherwise++
		}
	}
	out.Foreign = out.Keys - out.Equal - out.Otherwise
	for id, want := range p.leases {
		got := now.leases[id]
		if got.ttl == want.ttl && got.left > 0 && got.left <= got.ttl && slices.Equal(got.keys, want.keys) {
			out.EqualLeases++
		}
	}
	return out
}

// leasesIn lists the leases of before that another picture has too.
func (p picture) leasesIn(now picture) []RestoredLease {
	var out []RestoredLease
	for id, l := range p.leases {
		if got, ok := now.leases[id]; ok {
			out = append(out, RestoredLease{ID: fmt.Sprintf("%016x", int64(id)), TTLSeconds: got.ttl, LeftBefore: l.left, LeftSeconds: got.left, Keys: int64(len(got.keys))})
		}
	}
	slices.SortFunc(out, func(a, b RestoredLease) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// missing lists what is not as it was.
func (m RestoredMember) missing(want picture) []string {
	var out []string
	add := func(n int64, what string) {
		if n != 0 {
			out = append(out, fmt.Sprintf("on %s, %s: %d", m.Member, what, n))
		}
	}
	add(m.Lost, "keys that are lost")
	add(m.Otherwise, "keys with another value, version, revision or lease")
	add(m.Foreign, "keys that were not there")
	add(int64(len(want.leases))-m.EqualLeases, "leases that are lost, or have another TTL or other keys")
	add(m.Leases-m.EqualLeases, "leases that were not there")
	return out
}
