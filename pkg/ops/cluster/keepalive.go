package cluster

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
)

// KeepAlive renews a lease once, through this member, and returns for how long
// it lives from then on. A lease that is not there any more is an error with
// CauseLeaseNotFound.
//
// etcd's own client has one stream for all that it keeps alive, to one member;
// a member that defragments answers nothing on it, and when the client notices
// the lease has ended. Nor does its KeepAliveOnce do: it asks a port that is
// closed again and again without a pause.
func (m *MemberClient) KeepAlive(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	var ttl int64
	err := m.c.call(ctx, "keep a lease alive", m.p, unbounded, func(ctx context.Context) error {
		stream, err := pb.NewLeaseClient(m.p.etcd.ActiveConnection()).LeaseKeepAlive(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
			return err
		}
		resp, err := stream.Recv()
		if err == nil {
			ttl = resp.TTL
			err = stream.CloseSend()
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if ttl <= 0 {
		return 0, &fault.Error{Kind: fault.Unavailable, Cause: CauseLeaseNotFound, Op: "keep a lease alive", Msg: "the lease has ended"}
	}
	return time.Duration(ttl) * time.Second, nil
}

// KeepAlive renews a lease through every member that answered in the latest View
// at once; the first answer counts. It waits for as long as ctx lets it.
func (q *QuorumClient) KeepAlive(ctx context.Context, id clientv3.LeaseID) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		ttl time.Duration
		err error
	}
	endpoints := q.Endpoints()
	answers := make(chan answer, len(endpoints))
	for _, ep := range endpoints {
		go func() {
			m, err := q.c.At(ep)
			if err != nil {
				answers <- answer{err: err}
				return
			}
			ttl, err := m.KeepAlive(ctx, id)
			answers <- answer{ttl, err}
		}()
	}
	var errs []error
	for range endpoints {
		a := <-answers
		if a.err == nil || fault.CauseOf(a.err) == CauseLeaseNotFound {
			return a.ttl, a.err
		}
		errs = append(errs, a.err)
	}
	return 0, errors.Join(errs...)
}
