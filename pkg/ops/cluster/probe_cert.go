package cluster

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"kvd/pkg/ops/fault"
)

// leaf returns our own certificate, nil if there is none that can be read.
func (p *prober) leaf() *x509.Certificate {
	if p.cfg.Cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(p.cfg.Cert, p.cfg.Key)
	if err != nil {
		return nil
	}
	return pair.Leaf
}

// ownCertificate finds what can be seen of our own certificate without asking
// anyone: that it is out of its dates.
func (p *prober) ownCertificate() *fault.Error {
	c := p.leaf()
	if c == nil {
		return nil
	}
	if isOutOfDates(c) {
		return p.ownOutOfDates()
	}
	return nil
}

func (p *prober) ownOutOfDates() *fault.Error {
	return &fault.Error{Kind: fault.Denied, Cause: CauseCertExpired, Msg: "our client certificate " + p.cfg.Cert + " " + outOfDates(p.leaf()),
		Hint: "renew the client certificate (kubeadm: `kubeadm certs renew etcd-healthcheck-client`), and check the clocks"}
}

// saidToBeOutOfDates is for a server that ends the handshake because a certificate has
// expired. That need not be ours, which ownCertificate has looked at: Go's server says it
// of the CA as well, and goes by its own clock (processCertsFromClient in crypto/tls).
func (p *prober) saidToBeOutOfDates() *fault.Error {
	e := &fault.Error{Kind: fault.Denied, Cause: CauseCertExpired, Msg: "the server says that a certificate has expired",
		Hint: "see the server's log, and compare its clock with the one here"}
	c := p.leaf()
	if c == nil {
		return e
	}
	if ca := p.named(c); ca != nil && isOutOfDates(ca) {
		e.Msg = fmt.Sprintf("the CA %q that our client certificate %s is issued by %s", ca.Subject.String(), p.cfg.Cert, outOfDates(ca))
		e.Hint = hintCA
		return e
	}
	e.Msg += fmt.Sprintf(", and by the clock here our client certificate %s is good until %s", p.cfg.Cert, c.NotAfter.UTC().Format(day))
	e.Hint = fmt.Sprintf("either the server's clock is ahead, or the CA has expired that it checks clients by (--trusted-ca-file; ours is issued by %q): "+hintCA, c.Issuer.String())
	return e
}

// hintCA is for a CA that has expired. A new certificate for the CA's old key lets what
// the CA has issued go on; kubeadm renews what a CA has issued, and no CA.
const hintCA = "renew the CA's own certificate where it is trusted (each member's --trusted-ca-file and --peer-trusted-ca-file, and clients' --cacert), which `kubeadm certs renew` does not; a new certificate from the old CA does not help"

// serverCertificate says why the server's certificate is not taken.
func (p *prober) serverCertificate(refused *tls.CertificateVerificationError) *fault.Error {
	e := &fault.Error{Kind: fault.Denied}
	leaf := refused.UnverifiedCertificates[0]
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(refused, &host):
		return fill(e, e.Kind, CauseNameMismatch, fmt.Sprintf("the server's certificate is not for %s, but for %s", host.Host, namesIn(host.Certificate)),
			"use one of these names in the endpoint, or give it with --tls-server-name")
	case errors.As(refused, &invalid) && invalid.Reason == x509.Expired:
		return p.serverOutOfDates(e, leaf, invalid.Cert)
	case errors.As(refused, &unknown):
		return p.unknownCA(e, leaf)
	case !mayBe(leaf, x509.ExtKeyUsageServerAuth):
		return fill(e, e.Kind, CauseCertUnfit, "the server's certificate is not one of a server: its extended key usage has no serverAuth",
			"issue it anew with serverAuth, and with clientAuth for what etcd sends to itself and to its peers")
	}
	e.Err = refused.Err
	return fill(e, e.Kind, CauseCertUnfit, "the server's certificate cannot be used", "issue it anew")
}

// serverOutOfDates tells whose dates have passed: those of the server's certificate, or
// of a CA that it is issued by.
func (p *prober) serverOutOfDates(e *fault.Error, leaf, whose *x509.Certificate) *fault.Error {
	if !whose.Equal(leaf) {
		return fill(e, e.Kind, CauseCertExpired, fmt.Sprintf("the CA %q that the server's certificate is issued by %s", whose.Subject.String(), outOfDates(whose)), hintCA)
	}
	hint := "renew the server's certificate (kubeadm: `kubeadm certs renew etcd-server`), and check the clocks"
	if now := time.Now(); now.Before(whose.NotBefore) {
		hint = fmt.Sprintf("here it is %s: check the clocks, of this host and of that which issued it", now.UTC().Format(day))
	}
	return fill(e, e.Kind, CauseCertExpired, "the server's certificate "+outOfDates(whose), hint)
}

// unknownCA is for a server's certificate that no CA we trust has signed, whatever its
// issuer is called: a CA that was made anew has the name of the old one.
func (p *prober) unknownCA(e *fault.Error, leaf *x509.Certificate) *fault.Error {
	msg := "the server's certificate is not signed by a CA in " + p.cfg.CACert
	if p.cfg.CACert == "" {
		msg = "the server's certificate is not signed by a CA that this system trusts, and no --cacert is given"
	}
	msg += fmt.Sprintf("; it is issued by %q", leaf.Issuer.String())
	hint := "give the CA of the server's certificate with --cacert (kubeadm: /etc/kubernetes/pki/etcd/ca.crt)"
	if p.named(leaf) != nil {
		msg += ", and the CA of that name in the file has another key"
		hint = "one of the two was made anew, as kubeadm does on a host that has none: take the CA's certificate from the member's own host, and see that all members have the same one"
	}
	return fill(e, e.Kind, CauseUnknownCA, msg, hint)
}

// named finds the certificate in --cacert that has the name of another's issuer.
func (p *prober) named(issued *x509.Certificate) *x509.Certificate {
	raw, err := os.ReadFile(p.cfg.CACert)
	if err != nil {
		return nil
	}
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && bytes.Equal(c.RawSubject, issued.RawIssuer) {
			return c
		}
	}
	return nil
}

// mayBe reports whether a certificate's extended key usage, if it has one, allows this.
func mayBe(c *x509.Certificate, usage x509.ExtKeyUsage) bool {
	return len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 || slices.Contains(c.ExtKeyUsage, usage) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// day is how times are told here.
const day = "2006-01-02 15:04 MST"

func isOutOfDates(c *x509.Certificate) bool {
	now := time.Now()
	return now.Before(c.NotBefore) || now.After(c.NotAfter)
}

// outOfDates says what is wrong with a certificate's dates now.
func outOfDates(c *x509.Certificate) string {
	if time.Now().Before(c.NotBefore) {
		return fmt.Sprintf("is not valid before %s", c.NotBefore.UTC().Format(day))
	}
	return fmt.Sprintf("expired on %s (valid from %s)", c.NotAfter.UTC().Format(day), c.NotBefore.UTC().Format(day))
}

// namesIn lists what a certificate is for.
func namesIn(c *x509.Certificate) string {
	names := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name at all"
	}
	return strings.Join(names, ", ")
}
