// Package cluster connects to an etcd cluster and describes it: one View of all
// members, clients pinned to one member, a client for what needs the quorum.
// It is the only place in kvd that reads gRPC codes: everything it returns is a
// *fault.Error with a stable cause.
package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"

	"kvd/pkg/ops/fault"
)

// The timeouts that hold where a Config leaves them at zero.
const (
	// DefaultDialTimeout is how long one endpoint may take to accept a
	// connection, and how long naming the cause of a failure may take with it.
	// etcdctl's own default.
	DefaultDialTimeout = 2 * time.Second
	// DefaultCommandTimeout is longer than the 7 s after which etcd itself gives
	// up on a proposal (5 s plus two election timeouts of 1 s, ReqTimeout in
	// server/v3/config), so that the server's own verdict is seen.
	DefaultCommandTimeout = 10 * time.Second
	// DefaultMemberTimeout is how long one member may take to describe itself.
	DefaultMemberTimeout = 4 * time.Second
	// DefaultKeepaliveTime and DefaultKeepaliveTimeout are etcdctl's; gRPC makes
	// the first at least 10 s.
	DefaultKeepaliveTime    = 2 * time.Second
	DefaultKeepaliveTimeout = 6 * time.Second
)

// Config says where a cluster is and how to get in: one bundle, from one source.
type Config struct {
	Endpoints          []string `json:"endpoints"` // URLs, or host:port (plain unless TLS material is given)
	CACert             string   `json:"cacert,omitempty"`
	Cert               string   `json:"cert,omitempty"`
	Key                string   `json:"key,omitempty"`
	ServerName         string   `json:"tls_server_name,omitempty"` // what the server's certificate must name; default: the endpoint's host
	RequireTLS         bool     `json:"require_tls,omitempty"`     // TLS also where the endpoint has no scheme and there is no material (etcdctl's --insecure-transport=false)
	InsecureSkipVerify bool     `json:"insecure_skip_tls_verify,omitempty"`
	User               string   `json:"user,omitempty"`
	Password           string   `json:"-"`

	DialTimeout    time.Duration `json:"-"` // 0: DefaultDialTimeout
	CommandTimeout time.Duration `json:"-"` // 0: DefaultCommandTimeout
	MemberTimeout  time.Duration `json:"-"` // 0: DefaultMemberTimeout

	KeepaliveTime    time.Duration `json:"-"` // 0: DefaultKeepaliveTime
	KeepaliveTimeout time.Duration `json:"-"` // 0: DefaultKeepaliveTimeout

	Source string `json:"source"` // where this bundle came from; shown with every plan
}

// withDefaults returns c with every timeout set.
func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.DialTimeout, DefaultDialTimeout)
	def(&c.CommandTimeout, DefaultCommandTimeout)
	def(&c.MemberTimeout, DefaultMemberTimeout)
	def(&c.KeepaliveTime, DefaultKeepaliveTime)
	def(&c.KeepaliveTimeout, DefaultKeepaliveTimeout)
	return c
}

// hasTLS reports that the bundle carries anything that only makes sense with
// TLS, in which case an endpoint without a scheme is reached with TLS.
func (c Config) hasTLS() bool {
	return c.CACert != "" || c.Cert != "" || c.Key != "" || c.ServerName != "" || c.InsecureSkipVerify || c.RequireTLS
}

// wantsTLS reports whether an endpoint is reached with TLS, by etcd's client's
// rule: the scheme decides, and where there is none the material does.
func (c Config) wantsTLS(endpoint string) bool {
	switch {
	case strings.HasPrefix(endpoint, "https://"), strings.HasPrefix(endpoint, "unixs:"):
		return true
	case strings.HasPrefix(endpoint, "http://"):
		return false
	}
	return c.hasTLS()
}

// check finds what is wrong with a bundle before anything is sent.
func (c Config) check() error {
	if len(c.Endpoints) == 0 {
		return &fault.Error{Kind: fault.Usage, Cause: CauseNoEndpoint, Msg: "no endpoint given",
			Hint: "give one with --endpoints, for example --endpoints https://10.0.0.1:2379"}
	}
	for _, ep := range c.Endpoints {
		if u, err := url.Parse(ep); err == nil && u.User != nil {
			return &fault.Error{Kind: fault.Usage, Cause: CauseBadEndpoint, Subject: u.Redacted(), // else it is in every log
				Msg: "etcd takes no user from an endpoint", Hint: "give it with --user, and the password with KVD_PASSWORD or --password-file"}
		}
	}
	for _, f := range []struct{ flag, path string }{{"--cacert", c.CACert}, {"--cert", c.Cert}, {"--key", c.Key}} {
		if f.path == "" {
			continue
		}
		if file, err := os.Open(f.path); err != nil {
			return &fault.Error{Kind: fault.Denied, Cause: CauseTLSFiles, Subject: f.flag, Err: err,
				Hint: "check the path, and whether this user may read the file (etcd's keys usually belong to root)"}
		} else {
			_ = file.Close()
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return &fault.Error{Kind: fault.Usage, Cause: CauseTLSFiles,
			Msg: "a client certificate needs both --cert and --key, and only one is given"}
	}
	return nil
}

// tlsConfig builds what the bundle says about TLS; nil where it says nothing.
// Certificates are read again for every handshake, so that a rotated one works.
func (c Config) tlsConfig() (*tls.Config, error) {
	if !c.hasTLS() {
		return nil, nil
	}
	info := transport.TLSInfo{
		CertFile: c.Cert, KeyFile: c.Key, TrustedCAFile: c.CACert,
		ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipVerify,
	}
	cfg, err := info.ClientConfig()
	if err != nil {
		return nil, &fault.Error{Kind: fault.Denied, Cause: CauseTLSFiles,
			Subject: strings.Trim(fmt.Sprintf("%s %s %s", c.CACert, c.Cert, c.Key), " "), Err: err,
			Hint: "the files must be PEM, and the key must belong to the certificate"}
	}
	if cfg.RootCAs != nil && cfg.RootCAs.Equal(x509.NewCertPool()) {
		return nil, &fault.Error{Kind: fault.Denied, Cause: CauseTLSFiles, Subject: c.CACert, Msg: "there is no certificate in it",
			Hint: "--cacert wants a PEM file with the CA's certificate"}
	}
	return cfg, nil
}
