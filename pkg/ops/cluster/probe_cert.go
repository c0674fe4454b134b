package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
	if now := time.Now(); now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return p.ownOutOfDates()
	}
	return nil
}

func (p *prober) ownOutOfDates() *fault.Error {
	e := &fault.Error{Kind: fault.Denied, Cause: CauseCertExpired, Msg: "the server says that our client certificate " + p.cfg.Cert + " has expired",
		Hint: "renew the client certificate (kubeadm: `kubeadm certs renew etcd-healthcheck-client`), and check the clocks"}
	if c := p.leaf(); c != nil {
		e.Msg = "our client certificate " + p.cfg.Cert + " " + outOfDates(c)
	}
	return e
}

// outOfDates says what is wrong with a certificate's dates now.
func outOfDates(c *x509.Certificate) string {
	const day = "2006-01-02 15:04 MST"
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
