package cluster

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
)

// MemberClient talks to exactly one member, whatever the others do. It belongs
// to its Client and needs no Close. It is safe for concurrent use.
type MemberClient struct {
	c     *Client
	p     *pinned
	m     Member
	maint clientv3.Maintenance
}

// Member returns a client for one member of the latest View.
func (c *Client) Member(id uint64) (*MemberClient, error) {
	c.mu.Lock()
	m, ok := c.last.MemberByID(id)
	c.mu.Unlock()
	if !ok {
		return nil, &fault.Error{Kind: fault.Usage, Cause: CauseMemberNotFound, Subject: FormatID(id),
			Msg: "not a member in the latest view of the cluster"}
	}
	if m.Endpoint == "" {
		return nil, errNotStarted(m)
	}
	return c.memberAt(m)
}

// At returns a client for whichever member answers at an endpoint.
func (c *Client) At(endpoint string) (*MemberClient, error) {
	return c.memberAt(Member{Endpoint: endpoint})
}

func (c *Client) memberAt(m Member) (*MemberClient, error) {
	p, err := c.pin(m.Endpoint)
	if err != nil {
		return nil, err
	}
	// The maintenance client of etcd's own client would dial anew for each
	// Status and Defragment; this one uses the connection there is.
	remote := clientv3.RetryMaintenanceClient(p.etcd, p.etcd.ActiveConnection())
	return &MemberClient{c: c, p: p, m: m, maint: clientv3.NewMaintenanceFromMaintenanceClient(remote, p.etcd)}, nil
}

// ID returns the member's ID, 0 if it was reached by endpoint only.
func (m *MemberClient) ID() uint64 { return m.m.ID }

// Label names the member for people.
func (m *MemberClient) Label() string {
	if m.m.ID == 0 {
		return m.p.endpoint
	}
	return m.m.Label()
}

// Endpoint returns where this client talks to the member.
func (m *MemberClient) Endpoint() string { return m.p.endpoint }

// Etcd returns the client behind this one, for requests that have no method
// here. Its errors are etcd's: pass them to Explain.
func (m *MemberClient) Etcd() *clientv3.Client { return m.p.etcd }

// Explain gives an error of a request made through Etcd its cause.
func (m *MemberClient) Explain(ctx context.Context, op string, err error) error {
	return m.c.explain(ctx, op, m.p.endpoint, err)
}

// Connect makes sure that the connection stands and the user is logged in, for
// requests made through Etcd.
func (m *MemberClient) Connect(ctx context.Context) error {
	return m.c.call(ctx, "connect", m.p, unbounded, func(context.Context) error { return nil })
}

// Status asks the member for its status. It needs no quorum, but does not
// answer while the member defragments. It waits for MemberTimeout at most.
func (m *MemberClient) Status(ctx context.Context) (Status, error) {
	s, _, err := m.status(ctx)
	return s, err
}

// status asks a second time where the connection turned out to be a dead one,
// as it does after the member was restarted.
func (m *MemberClient) status(ctx context.Context) (s Status, h header, err error) {
	if s, h, err = m.statusOnce(ctx); fault.CauseOf(err) == CauseConnectionLost {
		s, h, err = m.statusOnce(ctx)
	}
	return s, h, err
}

func (m *MemberClient) statusOnce(ctx context.Context) (Status, header, error) {
	var s Status
	var h header
	err := m.c.call(ctx, "status", m.p, m.c.cfg.MemberTimeout, func(ctx context.Context) error {
		resp, err := m.maint.Status(ctx, m.p.endpoint)
		if err == nil {
			s, h = statusOf(resp), header{resp.Header.GetClusterId(), resp.Header.GetMemberId()}
		}
		return err
	})
	return s, h, err
}

// header is who answered.
type header struct{ cluster, member uint64 }

// Defragment rewrites the member's file. There is no timeout beside ctx's, and
// the end of ctx does not stop the server: it works on until it is done.
func (m *MemberClient) Defragment(ctx context.Context) error {
	return m.c.call(ctx, "defrag", m.p, unbounded, func(ctx context.Context) error {
		_, err := m.maint.Defragment(ctx, m.p.endpoint)
		return err
	})
}

// MoveLeader hands leadership to another voter. Only the leader does this.
func (m *MemberClient) MoveLeader(ctx context.Context, to uint64) error {
	return m.c.call(ctx, "move-leader", m.p, m.c.cfg.CommandTimeout, func(ctx context.Context) error {
		_, err := m.maint.MoveLeader(ctx, to)
		return err
	})
}

// HashKV hashes the member's keys up to a revision (0: the latest). It stalls
// every other request of that member while it scans.
func (m *MemberClient) HashKV(ctx context.Context, rev int64) (*clientv3.HashKVResponse, error) {
	return ask(ctx, m, "hash", unbounded, func(ctx context.Context) (*clientv3.HashKVResponse, error) {
		return m.maint.HashKV(ctx, m.p.endpoint, rev)
	})
}

// Get is a serializable read: from this member's own data, without the quorum.
func (m *MemberClient) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return ask(ctx, m, "get", m.c.cfg.CommandTimeout, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return m.p.etcd.Get(ctx, key, append(opts, clientv3.WithSerializable())...)
	})
}

// MemberList returns the members as this one knows them, without the quorum.
func (m *MemberClient) MemberList(ctx context.Context) (*clientv3.MemberListResponse, error) {
	return ask(ctx, m, "member list", m.c.cfg.MemberTimeout, func(ctx context.Context) (*clientv3.MemberListResponse, error) {
		return m.p.etcd.MemberList(ctx, clientv3.WithSerializable())
	})
}

// ask is call for requests that return something.
func ask[T any](ctx context.Context, m *MemberClient, op string, timeout time.Duration, fn func(context.Context) (T, error)) (T, error) {
	var out T
	err := m.c.call(ctx, op, m.p, timeout, func(ctx context.Context) (err error) {
		out, err = fn(ctx)
		return err
	})
	return out, err
}
