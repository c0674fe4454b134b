package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kvd/pkg/ops/fault"
)

// A probe finds out, with plain TCP, TLS and HTTP, what stands at an endpoint
// where a request got nothing back. gRPC hides the reason in texts, or behind
// its deadline; these layers tell it.

// probe examines an endpoint until ctx ends. It returns nil where an etcd
// answers there as it should.
func (c *Client) probe(ctx context.Context, endpoint string) *fault.Error {
	t, bad := target(endpoint)
	if bad != nil {
		return bad
	}
	p := &prober{tls: c.tls, cfg: c.cfg, t: t}
	if t.network == "tcp" {
		if e := lookup(ctx, t); e != nil {
			return e
		}
	}
	over := p.overPlain
	if c.cfg.wantsTLS(endpoint) {
		over = p.overTLS
	}
	e := over(ctx)
	if e == nil || e.Cause != CauseNotEtcd {
		return e
	}
	again, gone := p.dial(ctx)
	if gone != nil {
		return gone // it hung up because it was ending
	}
	_ = again.Close()
	return e
}

// dialTarget is an endpoint as the net package takes it.
type dialTarget struct {
	network, addr string // "tcp", "10.0.0.1:2379" or "unix", "/path"
	host, port    string
}

func target(endpoint string) (dialTarget, *fault.Error) {
	rest := endpoint
	for _, scheme := range []string{"unix://", "unixs://", "unix:", "unixs:"} {
		if p, ok := strings.CutPrefix(endpoint, scheme); ok {
			return dialTarget{network: "unix", addr: p, host: p}, nil
		}
	}
	if strings.Contains(endpoint, "://") {
		u, err := url.Parse(endpoint)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return dialTarget{}, badEndpoint(endpoint)
		}
		rest = u.Host
	}
	host, port, err := net.SplitHostPort(rest)
	if n, notPort := strconv.ParseUint(port, 10, 16); err != nil || notPort != nil || n == 0 {
		return dialTarget{}, badEndpoint(endpoint)
	}
	return dialTarget{network: "tcp", addr: rest, host: host, port: port}, nil
}

func badEndpoint(endpoint string) *fault.Error {
	return &fault.Error{Kind: fault.Usage, Cause: CauseBadEndpoint, Subject: endpoint, Msg: "not an endpoint: want SCHEME://HOST:PORT",
		Hint: "for example https://10.0.0.1:2379; the port is not optional"}
}

func lookup(ctx context.Context, t dialTarget) *fault.Error {
	if net.ParseIP(strings.Trim(t.host, "[]")) != nil {
		return nil
	}
	_, err := net.DefaultResolver.LookupHost(ctx, t.host)
	if err == nil {
		return nil
	}
	e := &fault.Error{Kind: fault.Unavailable, Cause: CauseDNSFailure, Msg: "the name " + t.host + " does not resolve",
		Hint: "check the spelling, /etc/hosts and the DNS server, or give the IP address (with --tls-server-name for the certificate)"}
	var dns *net.DNSError
	if errors.As(err, &dns) && !dns.IsNotFound {
		e.Msg = "looking up the name " + t.host + " failed: " + dns.Err
	}
	if ctx.Err() != nil {
		e.Msg = "looking up the name " + t.host + " takes too long"
	}
	return e
}

// dialCause tells why there is no connection.
func dialCause(t dialTarget, err error) *fault.Error {
	e := &fault.Error{Kind: fault.Unavailable}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		where := "port " + t.port
		if t.network == "unix" {
			where = "the socket " + t.addr
		}
		return fill(e, e.Kind, CauseConnectionRefused, "connection refused: nothing listens on "+where,
			"is etcd running there, and is this the port of its --listen-client-urls?")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fill(e, e.Kind, CauseUnreachable, "there is no route to this host", "check the address, and the network between here and there")
	case timedOut(err):
		return fill(e, e.Kind, CauseNoAnswer, "no answer to the connection attempt: packets are dropped on the way, or the host is down",
			"check the address, firewalls, and whether the host is up")
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fill(e, fault.Denied, CauseUnreachable, "this user may not connect there", "")
	case errors.Is(err, syscall.ECONNRESET):
		return silentHangUp()
	case errors.Is(err, syscall.EINVAL) && strings.HasPrefix(t.host, "fe80:"):
		return fill(e, e.Kind, CauseUnreachable, "a link-local address takes the interface with it", "give the member's other address; or write http://[fe80::1%25eth0]:2379")
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return fill(e, e.Kind, CauseUnreachable, "this host has no address to reach "+t.host+" from: is IPv6 switched off here?", "give the other address of the member, or its name")
	}
	e.Err = err
	return fill(e, e.Kind, CauseUnreachable, "", "check the address")
}

// silent is for a port that accepts a connection and says nothing.
func silent() *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseNoAnswer, Msg: "the port accepts connections, and nobody answers",
		Hint: "the process hangs or is stopped; or etcd is starting: it serves clients only once it has found a quorum of its peers. See its log. If it is far away or overloaded, give it more time with --dial-timeout"}
}

// silentHangUp is for a port that accepts a connection and ends it without a word, which
// etcd does not while it runs.
func silentHangUp() *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseNotEtcd, Msg: "the port accepts connections and ends them without a word: that is not etcd, but something before it, or something else",
		Hint: "a load balancer, a port-forward or an SSH tunnel does that where nothing answers behind it: is etcd running there? Else check host and port"}
}

// hungUp reports that the other side ended the connection.
func hungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func timedOut(err error) bool {
	var ne net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) || (errors.As(err, &ne) && ne.Timeout())
}

// prober examines one target with one bundle.
type prober struct {
	tls *tls.Config
	cfg Config
	t   dialTarget
}

// dial connects, with ctx's deadline on all reads and writes.
func (p *prober) dial(ctx context.Context) (net.Conn, *fault.Error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, p.t.network, p.t.addr)
	if errors.Is(err, syscall.ECONNRESET) { // the process ended while this waited to be accepted: what is there now?
		conn, err = d.DialContext(ctx, p.t.network, p.t.addr)
	}
	if err != nil {
		return nil, dialCause(p.t, err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	return conn, nil
}

// overPlain examines an endpoint that is reached without TLS.
func (p *prober) overPlain(ctx context.Context) *fault.Error {
	conn, e := p.dial(ctx)
	if e != nil {
		return e
	}
	defer conn.Close()
	// A TLS server answers plain text with an alert or by hanging up, but may
	// also just wait for more; so the question is asked within half the time.
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(time.Now().Add(time.Until(deadline) / 2))
	}
	page, err := getPage(conn, p.t.addr, "/version")
	if err == nil && !page.wantsTLS() {
		return p.judge(ctx, page, p.plainConn)
	}
	if p.speaksTLS(ctx) {
		return &fault.Error{Kind: fault.Unavailable, Cause: CauseTLSRequired, Msg: "the server speaks TLS, and the endpoint says http",
			Hint: "write https:// in the endpoint, and give --cacert (with --cert and --key where the server wants them)"}
	}
	if timedOut(err) {
		return silent()
	}
	if p.speaksGRPC(ctx, p.plainConn) {
		return nil
	}
	if err != nil && hungUp(err) {
		return silentHangUp()
	}
	return notEtcd("it is no HTTP server")
}

func (p *prober) plainConn(ctx context.Context) (net.Conn, error) {
	conn, e := p.dial(ctx)
	if e != nil {
		return nil, e
	}
	return conn, nil
}

func notEtcd(what string) *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseNotEtcd, Msg: "something that is not etcd answers there: " + what,
		Hint: "check host and port; etcd's clients usually connect to port 2379"}
}
