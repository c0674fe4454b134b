package metrics

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
)

const (
	// MaxBody bounds the answer in bytes; etcd's own is below 1 MiB.
	MaxBody = 16 << 20
	// DefaultTimeout bounds one fetch whose context has no nearer deadline. It
	// takes etcd milliseconds, also while it defragments.
	DefaultTimeout = 3 * time.Second
)

// Fetch reads the metrics of one member. The address is that of a client URL or
// of a metrics listener, with or without the path /metrics; one without a scheme
// is reached with TLS if the client has TLS material. Errors are *fault.Error:
// Unavailable, or Denied where a certificate or a permission is missing.
func Fetch(ctx context.Context, client *http.Client, address string) (*Sample, error) {
	base, err := parse(address, hasTLS(client))
	if err != nil {
		return nil, err
	}
	u := base.JoinPath("metrics").String()
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, badURL(address, err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	resp, err := client.Do(req)
	if err != nil {
		return nil, unreachable(u, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := checkStatus(u, resp.StatusCode); err != nil {
		return nil, err
	}
	if resp.ContentLength > MaxBody {
		return nil, tooLarge(u) // said beforehand: not a byte is read
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	if err != nil {
		return nil, unreachable(u, err)
	}
	if len(body) > MaxBody {
		return nil, tooLarge(u)
	}
	s, err := Parse(bytes.NewReader(body), time.Now())
	var e *fault.Error
	if errors.As(err, &e) {
		return nil, e.On("read metrics", u)
	}
	return s, err
}

func tooLarge(u string) error {
	return &fault.Error{Kind: fault.Unavailable, Cause: "metrics_too_large", Op: "read metrics", Subject: u,
		Msg: fmt.Sprintf("the answer is larger than %d MiB", MaxBody>>20), Hint: "is this etcd's address?"}
}

// Base returns what a path is put behind to ask a member by HTTP: a client URL or a
// metrics URL, without the path /metrics. One without a scheme is reached with TLS if
// the client has TLS material.
func Base(client *http.Client, address string) (string, error) {
	u, err := parse(address, hasTLS(client))
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// parse reads an address without its path /metrics; secure decides on the scheme where
// there is none.
func parse(address string, secure bool) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		scheme := "http://"
		if secure {
			scheme = "https://"
		}
		address = scheme + address
	}
	u, err := url.Parse(trimMetricsPath(address))
	if err != nil {
		return nil, badURL(address, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, badURL(address, errors.New("not an http or https address"))
	}
	return u, nil
}

func hasTLS(c *http.Client) bool {
	t, ok := c.Transport.(*http.Transport)
	return ok && t.TLSClientConfig != nil
}

func badURL(address string, err error) error {
	return &fault.Error{Kind: fault.Usage, Cause: "metrics_url", Op: "read metrics", Subject: address, Err: err,
		Hint: "give the address as http://HOST:PORT or https://HOST:PORT"}
}

func checkStatus(u string, code int) error {
	e := &fault.Error{Kind: fault.Unavailable, Cause: "metrics_status", Op: "read metrics", Subject: u,
		Msg: fmt.Sprintf("HTTP status %d %s", code, http.StatusText(code))}
	switch code {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Kind, e.Hint = fault.Denied, "whoever serves this address wants other credentials"
	case http.StatusNotFound:
		e.Hint = "nothing is served there; with --listen-metrics-urls etcd serves its metrics elsewhere: give that with --metrics-url NAME=URL"
	}
	return e
}

func unreachable(u string, err error) error {
	e := &fault.Error{Kind: fault.Unavailable, Cause: "metrics_unreachable", Op: "read metrics", Subject: u, Err: inner(err),
		Hint: "if the member serves its metrics elsewhere (--listen-metrics-urls), give that with --metrics-url NAME=URL"}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &cert):
		e.Kind, e.Cause, e.Hint = fault.Denied, "metrics_certificate", "check --cacert and the names in the member's certificate"
	case endedByAlert(err):
		e.Kind, e.Cause, e.Hint = fault.Denied, "metrics_certificate", "the member wants a client certificate, and one that it accepts: give --cert and --key, and check their dates and who issued them"
	case errors.Is(err, context.DeadlineExceeded):
		e.Msg, e.Err = "no answer in time", nil
	case wantsTLS(u, e.Err):
		e.Cause, e.Msg, e.Err = "metrics_not_http", "no page is served there in plain text, as on a port that speaks TLS", nil
		e.Hint = "give the address with https://"
	case onlyGRPC(e.Err):
		e.Cause, e.Msg, e.Err = "metrics_not_http", "no page is served there, as on a port for clients that has gRPC alone (--listen-client-http-urls, which k3s and RKE2 set)", nil
		e.Hint = "give where the member serves its metrics (--listen-metrics-urls; of k3s, RKE2 and kubeadm http://127.0.0.1:2381 on its own machine) with --metrics-url NAME=URL"
	}
	return e
}

// onlyGRPC reports that the port does not speak HTTP/1: in plain text gRPC's server begins
// with the settings of HTTP/2, which are no status line, and behind TLS it hangs up. Both
// come as soon as the connection stands, and where they are there before the request has
// been sent, net/http has other words for them, and no error to compare with.
func onlyGRPC(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, io.EOF) {
		return true
	}
	for _, words := range []string{"malformed HTTP response", "readLoopPeekFailLocked", "server closed idle connection"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// wantsTLS reports that a port which was asked in plain text speaks TLS: it answers with an
// alert, whose record begins with these bytes, or hangs up. A server of gRPC does not hang up
// before it has sent its settings.
func wantsTLS(address string, err error) bool {
	if !strings.HasPrefix(address, "http://") || err == nil {
		return false
	}
	return errors.Is(err, io.EOF) || strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`)
}

// endedByAlert reports that the server ended the TLS handshake. Which alert it chooses for
// a certificate that it lacks or does not accept depends on the reason and the version.
func endedByAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" && !strings.Contains(err.Error(), "protocol version")
}

// inner drops the "Get <url>:" that net/http puts before its errors: the subject
// says it already.
func inner(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
