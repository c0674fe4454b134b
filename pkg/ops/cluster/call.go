package cluster

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// unbounded as a timeout of call means that only the caller's context ends it.
const unbounded time.Duration = 0

// call runs one request on one endpoint: connect, log in if there is a user, the
// request with its timeout, and a cause for whatever goes wrong.
func (c *Client) call(ctx context.Context, op string, p *pinned, timeout time.Duration, fn func(context.Context) error) error {
	if err := c.ready(ctx, op, p); err != nil {
		return err
	}
	if err := c.login(ctx, op, p, ""); err != nil {
		return err
	}
	run := func() error {
		rctx, cancel := withTimeout(ctx, timeout)
		defer cancel()
		return fn(rctx)
	}
	used := c.auth.get()
	err := run()
	if c.auth.wanted() && staleToken(err) {
		// Tokens expire, and a member that lags may not know a new one yet.
		// Asking this very member makes one that it knows.
		if lerr := c.login(ctx, op, p, used); lerr != nil {
			return lerr
		}
		err = run()
	}
	return c.explain(ctx, op, p.endpoint, err)
}

// withTimeout is context.WithTimeout, but 0 is none.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= unbounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

func staleToken(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrInvalidAuthToken) ||
		errors.Is(rpctypes.Error(err), rpctypes.ErrAuthOldRevision)
}

// login gets a token from this endpoint unless there is one other than stale.
func (c *Client) login(ctx context.Context, op string, p *pinned, stale string) error {
	if !c.auth.wanted() {
		return nil
	}
	c.auth.login.Lock()
	defer c.auth.login.Unlock()
	if tok := c.auth.get(); c.auth.done && tok != stale {
		return nil
	}
	rctx, cancel := context.WithTimeout(ctx, c.cfg.CommandTimeout)
	defer cancel()
	resp, err := p.etcd.Authenticate(rctx, c.auth.user, c.auth.password)
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		c.auth.set("")
	case err != nil:
		return c.explain(ctx, op, p.endpoint, err)
	default:
		c.auth.set(resp.Token)
	}
	c.auth.done = true
	return nil
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
