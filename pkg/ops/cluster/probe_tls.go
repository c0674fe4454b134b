package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"kvd/pkg/ops/fault"
)

// session is one TLS connection attempt and what it showed.
type session struct {
	conn     *tls.Conn
	wanted   bool // the server asked for a client certificate
	shook    bool // the handshake was completed on our side
	heard    bool // the server said something in TLS
	mustWait bool // TLS 1.3: the server's verdict on our certificate comes after our handshake
}

// overTLS examines an endpoint that is reached with TLS.
func (p *prober) overTLS(ctx context.Context) *fault.Error {
	s, e, err := p.handshake(ctx, p.config())
	if e != nil {
		return e
	}
	defer s.conn.Close()
	if s.wanted {
		if e := p.ownCertificate(); e != nil {
			return e
		}
	}
	if err != nil {
		return p.handshakeCause(ctx, s, err)
	}
	if s.mustWait && s.wanted {
		// A server that rejects our certificate says so and hangs up. Writing now
		// could make the hang-up overtake what it said, so listen first.
		err = s.listen(ctx)
	}
	var pg page
	if err == nil {
		pg, err = getPage(s.conn, p.t.addr, "/version")
	}
	switch {
	case err == nil:
		return p.judge(ctx, pg, p.tlsConn)
	case timedOut(err):
		return silent()
	case isAlert(err):
		return p.handshakeCause(ctx, s, err)
	case p.speaksGRPC(ctx, p.grpcConn):
		return nil
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF):
		return p.handshakeCause(ctx, s, err)
	}
	return notEtcd("a TLS server that does not speak HTTP")
}

func (p *prober) config() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.tls != nil {
		cfg = p.tls.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = strings.Trim(p.t.host, "[]")
	}
	return cfg
}

// handshake connects and shakes hands. The first error is of the connection,
// the second of the handshake.
func (p *prober) handshake(ctx context.Context, cfg *tls.Config) (*session, *fault.Error, error) {
	conn, e := p.dial(ctx)
	if e != nil {
		return nil, e, nil
	}
	s := &session{}
	cert := cfg.GetClientCertificate
	cfg.GetClientCertificate = func(cri *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		s.wanted, s.heard = true, true
		if cert != nil {
			return cert(cri)
		}
		return &tls.Certificate{}, nil
	}
	verify := cfg.VerifyPeerCertificate
	cfg.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
		s.heard = true
		if verify != nil {
			return verify(raw, chains)
		}
		return nil
	}
	s.conn = tls.Client(conn, cfg)
	err := s.conn.HandshakeContext(ctx)
	s.shook = err == nil
	s.mustWait = s.shook && s.conn.ConnectionState().Version == tls.VersionTLS13
	return s, nil, err
}

// listenFor is how long a server may take to say that it does not like our
// certificate; it has what it needs for that already.
const listenFor = 150 * time.Millisecond

// listen waits a moment for an alert. Silence is good.
func (s *session) listen(ctx context.Context) error {
	_ = s.conn.SetReadDeadline(time.Now().Add(listenFor))
	var one [1]byte
	_, err := s.conn.Read(one[:])
	if deadline, ok := ctx.Deadline(); ok {
		_ = s.conn.SetReadDeadline(deadline)
	}
	if err == nil || timedOut(err) {
		return nil
	}
	return err
}

func (p *prober) tlsConn(ctx context.Context) (net.Conn, error) { return p.shaken(ctx, p.config()) }

// grpcConn is tlsConn for gRPC, whose servers hang up on whoever does not ask for HTTP/2
// in the handshake.
func (p *prober) grpcConn(ctx context.Context) (net.Conn, error) {
	cfg := p.config()
	cfg.NextProtos = []string{"h2"}
	return p.shaken(ctx, cfg)
}

func (p *prober) shaken(ctx context.Context, cfg *tls.Config) (net.Conn, error) {
	s, e, err := p.handshake(ctx, cfg)
	if e != nil {
		return nil, e
	}
	if err != nil {
		_ = s.conn.Close()
		return nil, err
	}
	return s.conn, nil
}

// speaksTLS reports whether the server understands TLS at all, whatever it then
// thinks of us.
func (p *prober) speaksTLS(ctx context.Context) bool {
	s, e, err := p.handshake(ctx, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // nothing is sent but the handshake
	if e != nil {
		return false
	}
	defer s.conn.Close()
	return err == nil || s.heard || isAlert(err)
}

// handshakeCause tells why a TLS connection did not come to life.
func (p *prober) handshakeCause(ctx context.Context, s *session, err error) *fault.Error {
	e := &fault.Error{Kind: fault.Denied}
	var refused *tls.CertificateVerificationError
	switch {
	case errors.As(err, &refused):
		return p.serverCertificate(refused)
	case isAlert(err):
		return p.alertCause(s, err)
	case timedOut(err):
		return p.plainOr(ctx, silent())
	case s.shook && s.wanted:
		// Hung up without a word right after our certificate.
		return p.certificateCause()
	case s.heard, isTLS(err):
		e.Err = err
		return fill(e, e.Kind, CauseTLSFailed, "the TLS handshake failed", "compare with the server's --tls-min-version and --cipher-suites, or with what stands before it")
	case hungUp(err):
		return p.plainOr(ctx, silentHangUp())
	}
	return p.plainOr(ctx, notEtcd("it does not speak TLS"))
}

// isTLS reports an error of crypto/tls about what the server said in TLS, as opposed to
// one about bytes that are none.
func isTLS(err error) bool {
	var noTLS tls.RecordHeaderError
	return !errors.As(err, &noTLS) && strings.HasPrefix(err.Error(), "tls: ")
}

// alertCause reads a TLS alert of the server. Go gives it as a text (RFC 8446,
// section 6.2).
func (p *prober) alertCause(s *session, err error) *fault.Error {
	text := err.Error()
	switch {
	case strings.Contains(text, "protocol version"):
		return &fault.Error{Kind: fault.Denied, Cause: CauseTLSFailed, Msg: "the server wants another version of TLS than 1.2 or 1.3", Err: err,
			Hint: "see the server's --tls-min-version and --tls-max-version, or what stands before it"}
	case strings.Contains(text, "expired certificate"):
		return p.saidToBeOutOfDates()
	case !s.wanted:
		return &fault.Error{Kind: fault.Denied, Cause: CauseTLSFailed, Msg: "the server ended the TLS handshake", Err: err,
			Hint: "see the server's log; its --cipher-suites may have none that this host takes"}
	}
	return p.certificateCause()
}

// certificateCause is for a server that asked for a certificate and did not like
// what it got.
func (p *prober) certificateCause() *fault.Error {
	if p.cfg.Cert == "" {
		return &fault.Error{Kind: fault.Denied, Cause: CauseClientCertRequired, Msg: "the server wants a client certificate, and none is given",
			Hint: "give --cert and --key (kubeadm: /etc/kubernetes/pki/etcd/healthcheck-client.crt and .key)"}
	}
	e := &fault.Error{Kind: fault.Denied, Cause: CauseClientCertRejected, Msg: "the server does not accept the client certificate " + p.cfg.Cert,
		Hint: "it must be signed by the CA of the server's --trusted-ca-file, allow client authentication, and satisfy --client-cert-allowed-cn or -hostname if set"}
	// Who is not let in is not told which port this is.
	e.Hint += ". If this is the port for peers (--listen-peer-urls, 2380 as a rule), give that of --listen-client-urls"
	if c := p.leaf(); c != nil {
		e.Msg += fmt.Sprintf(" (%q, issued by %q)", c.Subject.String(), c.Issuer.String())
		if !mayBe(c, x509.ExtKeyUsageClientAuth) {
			e.Msg += ", whose extended key usage is not that of a client"
			e.Hint = "issue it anew with the extended key usage clientAuth, or give one that has it"
			return e
		}
		if len(c.DNSNames)+len(c.IPAddresses) > 0 {
			// checkCertSAN in client/pkg/v3/transport/listener_tls.go.
			e.Hint += ": the one for peers takes a certificate that names hosts only from one of those, and this names " + namesIn(c)
		}
	}
	return e
}

// plainOr looks whether the server speaks plain HTTP or gRPC, and returns otherwise if
// it does not.
func (p *prober) plainOr(ctx context.Context, otherwise *fault.Error) *fault.Error {
	conn, e := p.dial(ctx)
	if e != nil {
		return otherwise
	}
	defer conn.Close()
	pg, err := getPage(conn, p.t.addr, "/version")
	if err != nil && !p.speaksGRPC(ctx, p.plainConn) {
		return otherwise
	}
	if err != nil {
		// etcd's port for gRPC, which has no page to judge it by
	} else if e := p.judge(ctx, pg, p.plainConn); e != nil && e.Cause == CauseNotEtcd {
		return notEtcd("an HTTP server without TLS")
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseTLSNotSupported, Msg: "the server does not speak TLS, and the endpoint is reached with it",
		Hint: "write http:// in the endpoint"}
}

func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
