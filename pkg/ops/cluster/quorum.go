package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
)

// QuorumClient is for what concerns the cluster as a whole. Its requests go to
// voters that answered when it was made, never to a learner, which would refuse
// them. It belongs to its Client and needs no Close. It is safe for concurrent
// use.
type QuorumClient struct {
	c    *Client
	etcd *clientv3.Client

	mu        sync.Mutex
	endpoints []string // where requests may go
	need      int      // voters that it takes
}

// Quorum returns the client for the cluster as a whole, the same one each time;
// its requests go to the voters that answered in the latest View. It takes a View
// if there is none yet; if no voter answers, the error has one line per endpoint.
func (c *Client) Quorum(ctx context.Context) (*QuorumClient, error) {
	c.mu.Lock()
	q, last := c.quorum, c.last
	c.mu.Unlock()
	endpoints := votersThatAnswered(last)
	if q != nil {
		q.move(endpoints, last.Quorum())
		return q, nil
	}
	if len(endpoints) == 0 {
		v, err := c.View(ctx)
		if err != nil {
			return nil, err
		}
		if endpoints = votersThatAnswered(v); len(endpoints) == 0 {
			return nil, errNoVoter(v)
		}
		last = v
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: c.tls, Logger: zap.NewNop(), DialTimeout: c.cfg.CommandTimeout,
		Username: c.cfg.User, Password: c.cfg.Password,
		DialKeepAliveTime: c.cfg.KeepaliveTime, DialKeepAliveTimeout: c.cfg.KeepaliveTimeout,
		// A few attempts, for the moment in which leadership moves. etcd's own
		// client makes 100.
		MaxUnaryRetries: 5, BackoffWaitBetween: 100 * time.Millisecond,
		DialOptions: c.dialOptions(),
	})
	if err != nil {
		return nil, c.explain(ctx, "connect", endpoints[0], err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quorum != nil || c.closed {
		_ = etcd.Close()
		if c.closed {
			return nil, &fault.Error{Kind: fault.Internal, Cause: CauseCanceled, Msg: "the client is closed"}
		}
		return c.quorum, nil
	}
	c.quorum = &QuorumClient{c: c, etcd: etcd, endpoints: endpoints, need: last.Quorum()}
	return c.quorum, nil
}

// move sends further requests to these endpoints. If there are none, whoever was
// there before is as good a guess as any.
func (q *QuorumClient) move(endpoints []string, need int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(endpoints) == 0 || slices.Equal(q.endpoints, endpoints) {
		return
	}
	q.endpoints, q.need = endpoints, need
	q.etcd.SetEndpoints(endpoints...)
}

func votersThatAnswered(v View) []string {
	var out []string
	for _, m := range v.Voters() {
		if m.Status != nil {
			out = append(out, m.Endpoint)
		}
	}
	return out
}

func errNoVoter(v View) error {
	if err := v.VotersErr(""); err != nil {
		return err
	}
	errs := []error{&fault.Error{Kind: fault.Unavailable, Cause: CauseNoEndpoint, Msg: "no voter of the cluster answers"}}
	for _, m := range v.Voters() {
		errs = append(errs, m.Err)
	}
	return errors.Join(errs...)
}

func (q *QuorumClient) close() error {
	if err := q.etcd.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Endpoints returns where requests may go.
func (q *QuorumClient) Endpoints() []string {
	endpoints, _ := q.state()
	return endpoints
}

func (q *QuorumClient) state() (endpoints []string, need int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.endpoints), q.need
}

// Etcd returns the client behind this one, for requests that have no method
// here (watches, leases kept alive, a load). Its errors are etcd's: pass them to
// Explain.
func (q *QuorumClient) Etcd() *clientv3.Client { return q.etcd }

// Explain gives an error of a request made through Etcd its cause.
func (q *QuorumClient) Explain(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	e := Classify(op, strings.Join(q.Endpoints(), ","), err)
	if !needsProbe(e) || errors.Is(ctx.Err(), context.Canceled) {
		return e
	}
	return q.explainSilence(ctx, op, e)
}

// explainSilence looks at every endpoint where a request got nothing back.
func (q *QuorumClient) explainSilence(ctx context.Context, op string, e *fault.Error) error {
	endpoints, need := q.state()
	found := make([]error, len(endpoints))
	var wg sync.WaitGroup
	for i, ep := range endpoints {
		wg.Go(func() {
			pctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.c.cfg.DialTimeout/2)
			defer cancel()
			if bad := q.c.probe(pctx, ep); bad != nil {
				found[i] = bad.On(op, ep)
			}
		})
	}
	wg.Wait()
	found = slices.DeleteFunc(found, func(err error) bool { return err == nil })
	switch answering := len(endpoints) - len(found); {
	case len(found) == 0:
		return e
	case answering == 0:
		return errors.Join(found...)
	case answering < need:
		lost := fill(e.On(op, ""), fault.Unavailable, CauseNoQuorum,
			fmt.Sprintf("the quorum is lost: it takes %d voters, and answers come from %d", need, answering),
			"bring members back until a majority is up: "+strings.ReplaceAll(errors.Join(found...).Error(), "\n", "; "))
		return lost
	}
	e = e.On(op, e.Subject)
	e.Msg += "; " + strings.ReplaceAll(errors.Join(found...).Error(), "\n", "; ")
	return e
}

func (q *QuorumClient) do(ctx context.Context, op string, timeout time.Duration, fn func(context.Context) error) error {
	rctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	return q.Explain(ctx, op, fn(rctx))
}

// Get is a linearizable read unless an option says otherwise.
func (q *QuorumClient) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (resp *clientv3.GetResponse, err error) {
	err = q.do(ctx, "get", q.c.cfg.CommandTimeout, func(ctx context.Context) (err error) {
		resp, err = q.etcd.Get(ctx, key, opts...)
		return err
	})
	return resp, err
}

// Put writes a key.
func (q *QuorumClient) Put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (resp *clientv3.PutResponse, err error) {
	err = q.do(ctx, "put", q.c.cfg.CommandTimeout, func(ctx context.Context) (err error) {
		resp, err = q.etcd.Put(ctx, key, value, opts...)
		return err
	})
	return resp, err
}

// Delete deletes a key or a range. etcd accepts deletes under NOSPACE.
func (q *QuorumClient) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (resp *clientv3.DeleteResponse, err error) {
	err = q.do(ctx, "delete", q.c.cfg.CommandTimeout, func(ctx context.Context) (err error) {
		resp, err = q.etcd.Delete(ctx, key, opts...)
		return err
	})
	return resp, err
}

// Txn runs one transaction.
func (q *QuorumClient) Txn(ctx context.Context, cmps []clientv3.Cmp, then, otherwise []clientv3.Op) (resp *clientv3.TxnResponse, err error) {
	err = q.do(ctx, "txn", q.c.cfg.CommandTimeout, func(ctx context.Context) (err error) {
		resp, err = q.etcd.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
		return err
	})
	return resp, err
}

// Compact discards history up to a revision. With physical it returns when the
// member that was asked has removed the old versions from its database, which
// may take minutes: only ctx bounds it.
func (q *QuorumClient) Compact(ctx context.Context, rev int64, physical bool) error {
	var opts []clientv3.CompactOption
	timeout := q.c.cfg.CommandTimeout
	if physical {
		opts, timeout = append(opts, clientv3.WithCompactPhysical()), unbounded
	}
	return q.do(ctx, "compact", timeout, func(ctx context.Context) error {
		_, err := q.etcd.Compact(ctx, rev, opts...)
		return err
	})
}

// LeaseGrant makes a lease that lives for ttl seconds. It goes through the same
// checks as a put, and leaves nothing in the key space.
func (q *QuorumClient) LeaseGrant(ctx context.Context, ttl int64) (id clientv3.LeaseID, err error) {
	err = q.do(ctx, "lease grant", q.c.cfg.CommandTimeout, func(ctx context.Context) error {
		resp, err := q.etcd.Grant(ctx, ttl)
		if err == nil {
			id = resp.ID
		}
		return err
	})
	return id, err
}

// LeaseRevoke ends a lease.
func (q *QuorumClient) LeaseRevoke(ctx context.Context, id clientv3.LeaseID) error {
	return q.do(ctx, "lease revoke", q.c.cfg.CommandTimeout, func(ctx context.Context) error {
		_, err := q.etcd.Revoke(ctx, id)
		return err
	})
}

// AlarmDisarm clears one alarm of one member, which need not be in the member
// list any more, and returns the alarms that were cleared: none if it was not
// raised. A type or member of zero is refused: etcd would take it for "all".
func (q *QuorumClient) AlarmDisarm(ctx context.Context, member uint64, typ string) ([]Alarm, error) {
	num, ok := pb.AlarmType_value[typ]
	if !ok || num == 0 || member == 0 {
		return nil, &fault.Error{Kind: fault.Usage, Cause: "alarm_type", Op: "alarm disarm",
			Msg: "need one member and one type, NOSPACE or CORRUPT"}
	}
	var resp *clientv3.AlarmResponse
	err := q.do(ctx, "alarm disarm", q.c.cfg.CommandTimeout, func(ctx context.Context) (err error) {
		resp, err = q.etcd.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: member, Alarm: pb.AlarmType(num)})
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []Alarm
	for _, a := range resp.Alarms {
		out = append(out, Alarm{MemberID: a.MemberID, Type: a.Alarm.String(), Source: "alarm disarm"})
	}
	return out, nil
}
