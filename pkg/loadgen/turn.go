package loadgen

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// Turn is one turn of an actor. Its methods send requests and record them: the
// first one's response time runs from when the turn was due, that of each
// further one from the end of the one before. It belongs to the actor until Act
// returns, and is for one goroutine.
type Turn struct {
	Due time.Time // when it should have begun
	N   int64     // which of the actor's turns it is, counted from 1; those left out count too

	env       *Env
	apiserver int
	seed      uint64
	from      time.Time // what the next response time runs from
}

// Env returns what the actor's scenario was set up in.
func (t *Turn) Env() *Env { return t.env }

// Rand returns random numbers that follow from seed, actor and N, the same ones
// each time it is called.
func (t *Turn) Rand() *rand.Rand {
	return rand.New(rand.NewPCG(t.seed, uint64(t.N))) //nolint:gosec // a load is no secret
}

// Client returns the connection of the actor's API server for a resource, for a
// request through Do.
func (t *Turn) Client(resource string) *clientv3.Client { return t.env.Client(t.apiserver, resource) }

// Reply is what Do is told of a request that was answered.
type Reply struct {
	Bytes    int64 // keys and values that were written, or that came back
	Conflict bool  // the condition was not met
}

// Do sends a request that has no method of its own here and records it. Its
// error is that of send, and is classified already: see Outcome.
func (t *Turn) Do(ctx context.Context, rpc, resource string, send func(context.Context, *clientv3.Client) (Reply, error)) error {
	ctx, cancel := context.WithTimeout(ctx, t.env.timeout)
	defer cancel()
	sent := time.Now()
	reply, err := send(ctx, t.Client(resource))
	done := time.Now()
	op := result.Op{RPC: rpc, Resource: resource, Outcome: result.OK}
	switch {
	case err != nil:
		op.Outcome = t.env.outcome(err)
	case reply.Conflict:
		op.Outcome = result.Conflict
	}
	t.env.rec.record(op, t.belongs(op, done), t.from, sent, done, reply.Bytes)
	t.from = done
	return err
}

// Observe records the turn as a whole: a list of several requests, say. Its response time
// runs from when it was due, and it is over now.
func (t *Turn) Observe(rpc, resource, outcome string, bytes int64) {
	op, now := result.Op{RPC: rpc, Resource: resource, Outcome: outcome}, time.Now()
	t.env.rec.record(op, t.belongs(op, now), t.Due, t.Due, now, bytes)
}

// belongs says whether something is of the warm-up or of the measurement: what is of a turn
// belongs to when that was due, so that turns are measured whole or not at all. What
// was waited for until the run had ended belongs there: throughout the measurement it had no
// answer, and an actor that waits for its answers had no other turn that could tell.
func (t *Turn) belongs(op result.Op, done time.Time) time.Time {
	if op.Outcome == result.Unfinished {
		return done
	}
	return t.Due
}

// Txn sends a transaction. Where its condition is not met, the answer says so
// and is counted as a conflict. The error is etcd's.
func (t *Turn) Txn(ctx context.Context, resource string, req shape.Txn) (*clientv3.TxnResponse, error) {
	var resp *clientv3.TxnResponse
	req = req.As(t.env.values)
	var bytes int64
	for _, op := range req.Then {
		if op.IsPut() {
			bytes += int64(len(op.KeyBytes()) + len(op.ValueBytes()))
		}
	}
	room := t.env.spend(bytes)
	err := t.Do(ctx, "txn", resource, func(ctx context.Context, c *clientv3.Client) (r Reply, err error) {
		if !room { // the run has ended, for the quota's sake: what still waits is not written
			return Reply{}, context.Canceled
		}
		if resp, err = req.Commit(ctx, c); err != nil {
			return Reply{}, err
		}
		if !resp.Succeeded {
			return Reply{Conflict: true}, nil
		}
		return Reply{Bytes: bytes}, nil
	})
	return resp, err
}

// Get sends a range request. The error is etcd's.
func (t *Turn) Get(ctx context.Context, resource string, req shape.Read) (*clientv3.GetResponse, error) {
	var resp *clientv3.GetResponse
	err := t.Do(ctx, "range", resource, func(ctx context.Context, c *clientv3.Client) (r Reply, err error) {
		if resp, err = req.Send(ctx, c); err != nil {
			return Reply{}, err
		}
		for _, kv := range resp.Kvs {
			r.Bytes += int64(len(kv.Key) + len(kv.Value))
		}
		return r, nil
	})
	return resp, err
}

// Grant sends a lease grant; ttl is in seconds, and not scaled. The error is
// etcd's.
func (t *Turn) Grant(ctx context.Context, resource string, ttl int64) (id clientv3.LeaseID, err error) {
	err = t.Do(ctx, "lease_grant", resource, func(ctx context.Context, c *clientv3.Client) (Reply, error) {
		resp, err := c.Grant(ctx, ttl)
		if err == nil {
			id = resp.ID
		}
		return Reply{}, err
	})
	return id, err
}

// outcome says what an error of a request is, and counts its cause.
func (e *Env) outcome(err error) string {
	if errors.Is(err, context.Canceled) || e.ended() {
		return result.Unfinished
	}
	why := cluster.Classify("", "", err)
	switch why.Cause {
	case cluster.CauseNoSpace:
		e.full(err.Error())
		return result.NoSpace
	case cluster.CauseRequestTimedOut, cluster.CauseDeadline:
		e.rec.cause(why.Cause, fault.Why(why))
		return result.Timeout
	case cluster.CauseCanceled:
		return result.Unfinished
	}
	e.rec.cause(why.Cause, fault.Why(why))
	return result.Failed
}
