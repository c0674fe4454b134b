package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"sync"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/fault"
)

// Client reaches a cluster and each of its members. It opens one connection per
// endpoint, when it is first needed, and keeps it until Close. It is safe for
// concurrent use.
type Client struct {
	cfg Config
	tls *tls.Config

	auth   tokenSource
	mu     sync.Mutex
	conns  map[string]*pinned // by endpoint
	quorum *QuorumClient
	last   View // the latest view, which says where each member is
	closed bool
}

// Connect checks the bundle and returns a client. Nothing is sent: whether
// anyone answers shows with the first request, which is usually View.
func Connect(_ context.Context, cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	t, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, tls: t, conns: map[string]*pinned{}}
	c.auth.user, c.auth.password = cfg.User, cfg.Password
	return c, nil
}

// Config returns the bundle with its timeouts filled in.
func (c *Client) Config() Config { return c.cfg }

// HTTPClient returns a client for what a member serves beside gRPC (/metrics,
// /health, /version) with the bundle's TLS material. The caller owns it and
// calls CloseIdleConnections.
func (c *Client) HTTPClient() *http.Client {
	tr := &http.Transport{DisableKeepAlives: true}
	if c.tls != nil {
		tr.TLSClientConfig = c.tls.Clone()
	}
	return &http.Client{Transport: tr, Timeout: c.cfg.CommandTimeout}
}

// Close ends all connections and waits for nothing else.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for _, p := range c.conns {
		errs = append(errs, p.close())
	}
	if c.quorum != nil {
		errs = append(errs, c.quorum.close())
	}
	c.conns, c.quorum = map[string]*pinned{}, nil
	return errors.Join(errs...)
}

// pinned is a connection to exactly one endpoint.
type pinned struct {
	endpoint string
	etcd     *clientv3.Client
}

func (p *pinned) close() error {
	if err := p.etcd.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// pin returns the connection to an endpoint, and makes it if there is none.
func (c *Client) pin(endpoint string) (*pinned, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, &fault.Error{Kind: fault.Internal, Cause: CauseCanceled, Subject: endpoint, Msg: "the client is closed"}
	}
	if p, ok := c.conns[endpoint]; ok {
		return p, nil
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, TLS: c.tls, Logger: zap.NewNop(),
		DialKeepAliveTime: c.cfg.KeepaliveTime, DialKeepAliveTimeout: c.cfg.KeepaliveTimeout,
		// One attempt: an answer that says "not now" is news here, and whoever
		// wants to try again does so and says so.
		MaxUnaryRetries: 1,
		DialOptions: []grpc.DialOption{
			grpc.WithPerRPCCredentials(&c.auth),
			grpc.WithChainUnaryInterceptor(failFast),
		},
	})
	if err != nil {
		return nil, &fault.Error{Kind: fault.Usage, Cause: CauseBadEndpoint, Subject: endpoint, Err: err}
	}
	p := &pinned{endpoint: endpoint, etcd: etcd}
	c.conns[endpoint] = p
	return p, nil
}

// failFast undoes etcd's client's WaitForReady, with which a request to a closed
// port waits for its whole deadline and then can't say why.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// ready waits until the connection stands. Where it does not within the dial
// timeout, the endpoint is probed for the cause; waiting and probing together
// stay inside that timeout.
func (c *Client) ready(ctx context.Context, op string, p *pinned) error {
	conn := p.etcd.ActiveConnection()
	if conn.GetState() == connectivity.Ready {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout/2)
	defer cancel()
	conn.ResetConnectBackoff()
	conn.Connect()
	for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
		if s == connectivity.TransientFailure || s == connectivity.Shutdown || !conn.WaitForStateChange(wait, s) {
			break
		}
		if conn.GetState() == connectivity.Idle {
			conn.Connect()
		}
	}
	if conn.GetState() == connectivity.Ready {
		return nil
	}
	if ctx.Err() != nil {
		return Classify(op, p.endpoint, ctx.Err())
	}
	left, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout/2)
	defer cancel()
	return on(c.probe(left, p.endpoint).orConnectionLost(), op, p.endpoint)
}
