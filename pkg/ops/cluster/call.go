package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
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
		if _, shown := tokenShown(ctx); shown {
			return err // that it is refused is what was asked
		}
		if !c.auth.wanted() || !staleToken(used, err) || method == pb.Auth_Authenticate_FullMethodName {
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
	err = ofServer(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) ||
		used == "" && errors.Is(err, rpctypes.ErrUserEmpty)
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
	// The probe has found etcd's pages, and a request nothing but pages: behind TLS, since in
	// plain text there is not even a connection. Any other status than 404 is a proxy's.
	if e.Cause == CauseNotEtcd && strings.Contains(e.Msg, "unexpected HTTP status code") {
		if strings.Contains(e.Msg, ": 404") {
			e.Cause, e.Msg = CauseMetricsPort, "etcd's pages are there, and nothing for clients: it is its port for pages alone (--listen-client-http-urls; of k3s 2382), or a proxy passes on HTTP/1 only"
		} else {
			e.Msg = "etcd's pages are there, and its clients' requests end before it, as at a proxy that passes on HTTP/1 only: " + e.Msg[strings.Index(e.Msg, "unexpected HTTP"):]
		}
		e.Hint = "use the port of --listen-client-urls, usually 2379, and no proxy that does not pass on HTTP/2 (gRPC)"
	}
	return e
}
