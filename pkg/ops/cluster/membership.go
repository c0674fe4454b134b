package cluster

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Changes of the member list. Each is one raft entry, which takes the quorum of
// the list before it. The member that is asked judges by itself whether the
// change is safe (--strict-reconfig-check), by what it is connected to; only a
// promotion is passed on to the leader. Whether a request that failed for want of
// an answer took effect, Members tells.

// AddMember adds a member that will listen to its peers at these URLs, as a
// learner or as a voter, and returns it with the list that it makes. It has no
// name before it was started.
func (m *MemberClient) AddMember(ctx context.Context, peerURLs []string, learner bool) (Member, []Member, error) {
	resp, err := ask(ctx, m, "member add", m.c.cfg.CommandTimeout, func(ctx context.Context) (*clientv3.MemberAddResponse, error) {
		if learner {
			return m.p.etcd.MemberAddAsLearner(ctx, peerURLs)
		}
		return m.p.etcd.MemberAdd(ctx, peerURLs)
	})
	if err != nil {
		return Member{}, nil, err
	}
	return memberOf(resp.Member), membersOf(resp.Members), nil
}

// RemoveMember removes a member for good: its ID never comes back. A process that
// runs under it ends by itself as soon as it hears of it.
func (m *MemberClient) RemoveMember(ctx context.Context, id uint64) ([]Member, error) {
	resp, err := ask(ctx, m, "member remove", m.c.cfg.CommandTimeout, func(ctx context.Context) (*clientv3.MemberRemoveResponse, error) {
		return m.p.etcd.MemberRemove(ctx, id)
	})
	if err != nil {
		return nil, err
	}
	return membersOf(resp.Members), nil
}

// UpdateMember gives a member other peer URLs, by which the others reach it from then
// on. Where it listens is not changed by that.
func (m *MemberClient) UpdateMember(ctx context.Context, id uint64, peerURLs []string) ([]Member, error) {
	resp, err := ask(ctx, m, "member update", m.c.cfg.CommandTimeout, func(ctx context.Context) (*clientv3.MemberUpdateResponse, error) {
		return m.p.etcd.MemberUpdate(ctx, id, peerURLs)
	})
	if err != nil {
		return nil, err
	}
	return membersOf(resp.Members), nil
}

// PromoteMember makes a voter of a learner. The leader refuses while the learner
// has less than nine tenths of its log (readyPercentThreshold in
// server/v3/etcdserver).
func (m *MemberClient) PromoteMember(ctx context.Context, id uint64) ([]Member, error) {
	resp, err := ask(ctx, m, "member promote", m.c.cfg.CommandTimeout, func(ctx context.Context) (*clientv3.MemberPromoteResponse, error) {
		return m.p.etcd.MemberPromote(ctx, id)
	})
	if err != nil {
		return nil, err
	}
	return membersOf(resp.Members), nil
}

// Members returns the member list by a linearizable read: what was decided before
// the call is in it. Without a quorum it fails; MemberList does not.
func (m *MemberClient) Members(ctx context.Context) ([]Member, error) {
	resp, err := ask(ctx, m, "member list", m.c.cfg.CommandTimeout, func(ctx context.Context) (*clientv3.MemberListResponse, error) {
		return m.p.etcd.MemberList(ctx)
	})
	if err != nil {
		return nil, err
	}
	return membersOf(resp.Members), nil
}

// OwnMembers returns the list as this member has it, without the quorum.
func (m *MemberClient) OwnMembers(ctx context.Context) ([]Member, error) {
	resp, err := m.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	return membersOf(resp.Members), nil
}

// PeerAnswers reports whether an etcd answers at one of the member's peer URLs,
// which it does before it serves clients. It waits for half of DialTimeout.
func (c *Client) PeerAnswers(ctx context.Context, m Member) bool { return c.peerAlive(ctx, m.PeerURLs) }

func memberOf(m *pb.Member) Member {
	return Member{ID: m.GetID(), Name: m.GetName(), ClientURLs: m.GetClientURLs(), PeerURLs: m.GetPeerURLs(), Learner: m.GetIsLearner()}
}

func membersOf(all []*pb.Member) []Member {
	out := make([]Member, 0, len(all))
	for _, m := range all {
		out = append(out, memberOf(m))
	}
	return out
}
