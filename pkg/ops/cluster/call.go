package cluster

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"kvd/pkg/ops/fault"
)

// unbounded as a timeout of call means that only the caller's context ends it.
const unbounded time.Duration = 0

// call runs one request on one endpoint: connect, log in if there is a user, the
// request with its timeout, and a cause for whatever goes wrong.
func (c *Client) call(ctx context.Context, op string, p *pinned, timeout time.Duration, fn func(context.Context) error) error {
	if err := c.ready(ctx, op, p); err != nil {
		return err
	}
	if err := c.loginAnywhere(ctx, op, p, nil, timeout); err != nil {
		return err
	}
	rctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	return c.explain(ctx, op, p.endpoint, fn(rctx))
}

// renewToken has a request on this connection that is refused for its token sent
// once more, with a new one. Tokens expire, and a member that lags may not know
// one yet that another has made; asking this very member makes one that it knows.
// Where there was none because authentication was off, it may be on by now.
func (c *Client) renewToken(p *pinned) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		used := c.auth.get()
		err := invoke(ctx, method, req, reply, cc, opts...)
		if !c.auth.wanted() || !staleToken(used, err) {
			return err
		}
		if lerr := c.loginAnywhere(ctx, "log in", p, &used, unbounded); lerr != nil {
			return lerr
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

// withTimeout is context.WithTimeout, but 0 is none.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= unbounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// staleToken reports that a request was refused for the token it had, or had not.
func staleToken(used string, err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) ||
		used == "" && errors.Is(err, rpctypes.ErrUserEmpty)
}

// learnerPatience is how old a token may be before a learner that does not know it
// is taken not to learn of it any more. Each login is a proposal and a bcrypt round
// for the cluster, and a learner knows of it once it has applied it.
const learnerPatience = 10 * time.Second

// loginAnywhere is login for an endpoint that may be a learner's. A learner takes
// no login, and does not know the tokens that were made before it got its data:
// one from a voter reaches it with the log.
func (c *Client) loginAnywhere(ctx context.Context, op string, p *pinned, stale *string, timeout time.Duration) error {
	err := c.login(ctx, op, p, stale, timeout)
	if fault.CauseOf(err) != CauseLearner {
		return err
	}
	if stale != nil && c.auth.age() < learnerPatience {
		return nil // it may come to know the one there is
	}
	c.mu.Lock()
	endpoints := append(votersThatAnswered(c.last), c.cfg.Endpoints...)
	c.mu.Unlock()
	for _, ep := range endpoints {
		other, perr := c.pin(ep)
		if perr != nil || ep == p.endpoint || c.ready(ctx, op, other) != nil {
			continue
		}
		if c.login(ctx, op, other, stale, timeout) == nil {
			return nil
		}
	}
	return err
}

// login gets a token from this endpoint unless there is one, other than stale if
// that is not nil; or unless it is known that none is wanted.
// Of several requests that want one at the same time, one asks and all take what
// it gets, also its failure: logging in is a proposal, and without a quorum each
// would wait in vain for the whole time.
func (c *Client) login(ctx context.Context, op string, p *pinned, stale *string, timeout time.Duration) error {
	if !c.auth.wanted() {
		return nil
	}
	came := time.Now()
	c.auth.login.Lock()
	defer c.auth.login.Unlock()
	if c.auth.done && (stale == nil || c.auth.get() != *stale) {
		return nil
	}
	if c.auth.failedAt.After(came) {
		return c.auth.failure.On(op, p.endpoint)
	}
	if timeout <= unbounded {
		timeout = c.cfg.CommandTimeout
	}
	rctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := p.etcd.Authenticate(rctx, c.auth.user, c.auth.password)
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		c.auth.set("")
	case err != nil:
		e := Classify(op, p.endpoint, c.explain(ctx, op, p.endpoint, err))
		if e.Cause == CauseLearner {
			return e // it logs in nobody, which says nothing of the others
		}
		if e.Cause == CauseDeadline || e.Cause == CauseRequestTimedOut || e.Cause == CauseNoLeader {
			e = fill(e, fault.Unavailable, e.Cause, "logging in as "+c.auth.user+" takes a majority of the voters, and there was no answer in time",
				"bring the voters back; or use a client certificate whose common name is the user's, which needs no login")
		}
		c.auth.failure, c.auth.failedAt = e, time.Now()
		return e
	default:
		c.auth.set(resp.Token)
	}
	c.auth.done = true
	return nil
}

// Explain gives an error of a request to an endpoint its cause, for connections of
// DialLikeAPIServer. Where nothing came back it looks at the endpoint, for half the dial
// timeout at most.
func (c *Client) Explain(ctx context.Context, op, endpoint string, err error) error {
	return c.explain(ctx, op, endpoint, err)
}

// explain gives an error its cause. Where the error itself only says that
// nothing came back, the endpoint is probed, for at most half the dial timeout
// and also when the caller's own deadline has passed, since by then the cause is
// all that can still be had.
func (c *Client) explain(ctx context.Context, op, endpoint string, err error) error {
	if err == nil {
		return nil
	}
	e := Classify(op, endpoint, err)
	if !needsProbe(e) || errors.Is(ctx.Err(), context.Canceled) {
		return e
	}
	pctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.DialTimeout/2)
	defer cancel()
	if found := c.probe(pctx, endpoint); found != nil {
		return found.On(op, endpoint)
	}
	return e
}
