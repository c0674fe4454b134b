package diagnose

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"kvd/pkg/ops/cluster"
)

// certs looks at the certificates that members show, to clients and to peers, and
// at our own. Whether they are good is not asked here: one that has expired is to be
// seen as well.
func (c *collector) certs(ctx context.Context, v cluster.View) {
	var config *tls.Config
	if t, ok := c.http.Transport.(*http.Transport); ok && t.TLSClientConfig != nil {
		config = t.TLSClientConfig.Clone()
	} else {
		config = &tls.Config{}
	}
	config.InsecureSkipVerify = true //nolint:gosec // only their dates are read
	type place struct {
		of, url string
		member  uint64
		peer    bool
	}
	var places []place
	for _, m := range v.Members {
		places = append(places, place{name(m) + " for clients", m.Endpoint, m.ID, false})
		for _, u := range m.PeerURLs {
			places = append(places, place{name(m) + " for peers", u, m.ID, true})
		}
	}
	found, plain := make([]*Cert, len(places)), make([]bool, len(places))
	var wg sync.WaitGroup
	for i, p := range places {
		wg.Go(func() {
			if found[i], plain[i] = shown(ctx, config, p.of, p.url, c.client.Config().DialTimeout); !p.peer && !https(p.url) {
				found[i] = nil // which checkEndpoints says
			}
		})
	}
	wg.Wait()
	for i, f := range found {
		if p := places[i]; p.peer && (plain[i] && https(p.url) || f != nil && !https(p.url)) {
			c.in.Schemes = append(c.in.Schemes, OtherScheme{Member: p.member, URL: p.url, TLS: f != nil})
		}
		if f != nil {
			f.Member, f.Peer = places[i].member, places[i].peer
			c.in.Certs = append(c.in.Certs, *f)
		}
	}
	cfg := c.client.Config()
	for _, own := range inFile("kvd itself, "+cfg.Cert, cfg.Cert) {
		own.Own = true
		c.in.Certs = append(c.in.Certs, own)
	}
	for _, ca := range inFile("the CA in "+cfg.CACert, cfg.CACert) {
		ca.CA = true
		c.in.Certs = append(c.in.Certs, ca)
	}
}

// shown is the certificate that an address shows, nil where there is none. It is
// shown before a server asks for ours: up to TLS 1.2 one that refuses us, as a peer port
// does, has ended the handshake by then. plain is that whoever is there speaks no TLS.
func shown(ctx context.Context, config *tls.Config, of, address string, timeout time.Duration) (seen *Cert, plain bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Port() == "" {
		return nil, false
	}
	config = config.Clone()
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) > 0 {
			seen = certOf(of, s.PeerCertificates[0])
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", u.Host)
	if err == nil { // else checkEndpoints says why
		_ = conn.Close()
	}
	var other tls.RecordHeaderError
	return seen, errors.As(err, &other)
}

func https(address string) bool { return strings.HasPrefix(address, "https://") }

func certOf(of string, x *x509.Certificate) *Cert {
	return &Cert{Of: of, Subject: x.Subject.String(), NotBefore: x.NotBefore, NotAfter: x.NotAfter, Issuer: x.Issuer.String(), Key: hex.EncodeToString(x.AuthorityKeyId)}
}

// inFile reads the certificates of a PEM file.
func inFile(of, path string) []Cert {
	if path == "" {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var out []Cert
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if x, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			out = append(out, *certOf(of, x))
		}
	}
	return slices.Clip(out)
}
