package cluster

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"kvd/pkg/ops/fault"
)

const (
	// learnerPatience is how old a token may be before a learner that does not know it
	// is taken not to learn of it any more. Each login is a proposal and a bcrypt round
	// for the cluster, and a learner knows of it once it has applied it.
	learnerPatience = 10 * time.Second
	// loginPatience is how long a login at one endpoint keeps those at others waiting.
	// It takes a bcrypt round of some 0.1 s and a proposal; a member that takes longer may
	// hang, or be cut off from its peers, which is no reason for the others to fail.
	loginPatience = time.Second
)

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
// Of several requests that want one at the same time, one asks and all take what it
// gets; where that takes too long, or fails for a reason that may be its endpoint's own,
// one for each further endpoint asks there. Without a quorum each waits in vain, but all
// at the same time.
func (c *Client) login(ctx context.Context, op string, p *pinned, stale *string, timeout time.Duration) error {
	for c.auth.wanted() && !c.auth.settled(stale) {
		l, wait := c.auth.join(p.endpoint)
		if wait == 0 {
			e := c.authenticate(ctx, op, p, timeout)
			c.auth.leave(l, e, ctx.Err() != nil)
			if e != nil && !c.auth.settled(stale) {
				return e
			}
			return nil
		}
		if err := l.await(ctx, wait); err != nil {
			return Classify(op, p.endpoint, err)
		}
		if e := l.verdictFor(p.endpoint); e != nil && !c.auth.settled(stale) {
			return e.On(op, p.endpoint)
		}
	}
	return nil
}

// authenticate asks one endpoint for a token.
func (c *Client) authenticate(ctx context.Context, op string, p *pinned, timeout time.Duration) *fault.Error {
	if timeout <= unbounded {
		timeout = c.cfg.CommandTimeout
	}
	rctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := p.etcd.Authenticate(rctx, c.auth.user, c.auth.password)
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		c.auth.set("")
		return nil
	case err == nil:
		c.auth.set(resp.Token)
		return nil
	}
	e := Classify(op, p.endpoint, c.explain(ctx, op, p.endpoint, err))
	switch e.Cause {
	case CauseDeadline, CauseRequestTimedOut, CauseNoLeader:
		e = fill(e, fault.Unavailable, e.Cause, "logging in as "+c.auth.user+" takes a majority of the voters, and there was no answer in time",
			"bring the voters back; or use a client certificate whose common name is the user's, which needs no login")
	}
	return e
}
