package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"sync"
	"time"

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
	shared map[string]behind  // by endpoint, what further connections to it have met
	quorum *QuorumClient
	last   View // the latest view, which says where each member is
	closed bool
}

// Connect checks the bundle and returns a client. Nothing is sent: whether
// anyone answers shows with the first request, which is usually View.
func Connect(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	t, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, tls: t, conns: map[string]*pinned{}, shared: map[string]behind{}}
	c.auth.user, c.auth.password = cfg.User, cfg.Password
	return c, nil
}

// Config returns the bundle with its timeouts filled in.
func (c *Client) Config() Config { return c.cfg }

// HTTPClient returns a client for what a member serves beside gRPC (/metrics,
// /health, /version) with the bundle's TLS material. The caller owns it and
// calls CloseIdleConnections.
func (c *Client) HTTPClient() *http.Client {
	// Without HTTP/2, for which net/http would put TLS settings into a transport that has
	// none, with its first request: whoever takes an endpoint without a scheme looks at
	// these to see whether TLS is wanted.
	tr := &http.Transport{DisableKeepAlives: true, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
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
	p := &pinned{endpoint: endpoint}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, TLS: c.tls, Logger: zap.NewNop(),
		DialKeepAliveTime: c.cfg.KeepaliveTime, DialKeepAliveTimeout: c.cfg.KeepaliveTimeout,
		// One attempt: an answer that says "not now" is news here, and whoever
		// wants to try again does so and says so.
		MaxUnaryRetries: 1,
		DialOptions:     c.dialOptions(c.credentials(p)...),
	})
	if err != nil {
		return nil, &fault.Error{Kind: fault.Usage, Cause: CauseBadEndpoint, Subject: endpoint, Err: err}
	}
	p.etcd = etcd
	c.conns[endpoint] = p
	return p, nil
}

// What a member may send before it has to wait for us, and what is read of it at
// once. With gRPC's own, which are smaller, a snapshot takes longer: each side waits
// for the other more often.
const (
	streamWindow = 4 << 20
	readBuffer   = 256 << 10
)

// dialOptions are those that all connections have. gRPC takes the name to verify
// from its "authority" and overwrites what the TLS configuration says, so the
// server name has to be given as that.
func (c *Client) dialOptions(more ...grpc.DialOption) []grpc.DialOption {
	opts := append(more, grpc.WithChainUnaryInterceptor(failFast, verdictInTime),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(streamWindow), grpc.WithReadBufferSize(readBuffer))
	if c.cfg.ServerName != "" {
		opts = append(opts, grpc.WithAuthority(c.cfg.ServerName))
	}
	return opts
}

// credentials put the token on what is sent, and have a new one made where it is
// refused.
func (c *Client) credentials(p *pinned) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithPerRPCCredentials(&c.auth),
		grpc.WithChainUnaryInterceptor(c.renewToken(p)), grpc.WithChainStreamInterceptor(c.renewStream(p))}
}

// failFast undoes etcd's client's WaitForReady, with which a request to a closed
// port waits for its whole deadline and then can't say why.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// ready waits until the connection stands. Where it does not after a while, the
// endpoint is probed for the cause; waiting and probing together stay inside the
// dial timeout.
func (c *Client) ready(ctx context.Context, op string, p *pinned) error {
	conn := p.etcd.ActiveConnection()
	if conn.GetState() == connectivity.Ready {
		return nil
	}
	begun := time.Now()
	within := func(part float64) (context.Context, context.CancelFunc) {
		return context.WithDeadline(ctx, begun.Add(time.Duration(part*float64(c.cfg.DialTimeout))))
	}
	// Only where there is a pause to be cut short: gRPC 1.83 goes through the map of a
	// connection's addresses without its lock, and a connection that has just
	// been made writes to it (clientconn.go, ResetConnectBackoff).
	if conn.GetState() == connectivity.TransientFailure {
		conn.ResetConnectBackoff()
	}
	wait, cancel := within(0.4)
	defer cancel()
	if connected(wait, conn, true) {
		return nil
	}
	if ctx.Err() != nil {
		return Classify(op, p.endpoint, ctx.Err())
	}
	probing, cancel := within(0.8)
	defer cancel()
	if found := c.probe(probing, p.endpoint); found != nil {
		return found.On(op, p.endpoint)
	}
	// An etcd is there, and only slow to greet: give it the rest of the time.
	wait, cancel = within(1)
	defer cancel()
	if connected(wait, conn, false) {
		return nil
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseConnectionLost, Op: op, Subject: p.endpoint,
		Msg: "the endpoint answers, but no connection came about in time", Hint: "try again, or give it more time with --dial-timeout"}
}

// connected waits for a connection until ctx ends, or, with once, until the
// first attempt failed.
func connected(ctx context.Context, conn *grpc.ClientConn, once bool) bool {
	for {
		switch s := conn.GetState(); {
		case s == connectivity.Ready:
			return true
		case s == connectivity.Shutdown, once && s == connectivity.TransientFailure:
			return false
		default:
			if s == connectivity.Idle {
				conn.Connect()
			}
			if !conn.WaitForStateChange(ctx, s) {
				return false
			}
		}
	}
}

// What kube-apiserver sets its clients to, one for each resource
// (apiserver/pkg/storage/storagebackend/factory/etcd3.go); the rest is etcd's
// client's own.
const (
	apiserverKeepaliveTime    = 30 * time.Second
	apiserverKeepaliveTimeout = 10 * time.Second
)

// DialLikeAPIServer returns a further connection to an endpoint, set up as those
// of kube-apiserver are: requests wait for the connection, reads are tried again,
// and windows are gRPC's own. Nothing is sent yet. The caller closes it. The
// errors of its requests are etcd's: pass them to Explain, or to Classify.
func (c *Client) DialLikeAPIServer(endpoint string) (*clientv3.Client, error) {
	p := &pinned{endpoint: endpoint}
	opts := c.credentials(p)
	if c.cfg.ServerName != "" {
		opts = append(opts, grpc.WithAuthority(c.cfg.ServerName))
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, TLS: c.tls, Logger: zap.NewNop(), DialOptions: opts,
		DialKeepAliveTime: apiserverKeepaliveTime, DialKeepAliveTimeout: apiserverKeepaliveTimeout,
	})
	if err != nil {
		return nil, &fault.Error{Kind: fault.Usage, Cause: CauseBadEndpoint, Subject: endpoint, Err: err}
	}
	p.etcd = etcd
	return etcd, nil
}
