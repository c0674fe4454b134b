package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kvd/pkg/server/local"
)

// Pair is a certificate and its key, as paths of PEM files.
type Pair struct{ Cert, Key string }

// Certs is an authority and what it has signed, in one folder.
type Certs struct {
	CA      string // the authority's certificate
	OtherCA string // of an authority that signed nothing here but OtherServer and OtherClient

	Server Pair // for 127.0.0.1, ::1 and localhost
	Client Pair // common name "root"

	OtherServer   Pair // signed by OtherCA
	OtherClient   Pair // signed by OtherCA
	ExpiredServer Pair // good until an hour ago
	ExpiredClient Pair // good until an hour ago
	NoSANServer   Pair // names nothing it could be reached by
	WrongServer   Pair // names another host

	FutureServer     Pair   // good from tomorrow on
	ClientOnlyServer Pair   // its extended key usage is that of a client alone
	ServerOnlyClient Pair   // its extended key usage is that of a server alone
	TwinCA           string // of an authority with the name of CA's, and a key of its own
	TwinServer       Pair   // signed by TwinCA
	ExpiredCA        string // good until an hour ago
	ExpiredCAServer  Pair   // signed by ExpiredCA, and itself in its dates
	ExpiredCAClient  Pair   // the same

	tb  testing.TB
	dir string
	ca  *authority
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// leaf says what a certificate is for.
type leaf struct {
	cn      string
	ips     []net.IP
	dns     []string
	expired bool
	future  bool
	usage   x509.ExtKeyUsage // 0: of a server and of a client
}

// NewCerts makes an authority and the certificates of the fields, good ones and
// deliberately bad ones.
func NewCerts(tb testing.TB) *Certs {
	tb.Helper()
	c := &Certs{tb: tb, dir: tb.TempDir()}
	var other *authority
	c.ca, c.CA = c.newAuthority("ca", leaf{cn: "ca"})
	other, c.OtherCA = c.newAuthority("other-ca", leaf{cn: "other-ca"})
	here := leaf{cn: "server", ips: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, dns: []string{"localhost"}}
	expired, nameless, wrong := here, leaf{cn: "127.0.0.1"}, leaf{cn: "server", dns: []string{"elsewhere.example"}}
	expired.expired = true

	c.Server = c.issue(c.ca, "server", here)
	c.OtherServer = c.issue(other, "other-server", here)
	c.ExpiredServer = c.issue(c.ca, "expired-server", expired)
	c.NoSANServer = c.issue(c.ca, "no-san-server", nameless)
	c.WrongServer = c.issue(c.ca, "wrong-server", wrong)
	c.Client = c.issue(c.ca, "client", leaf{cn: "root"})
	c.OtherClient = c.issue(other, "other-client", leaf{cn: "root"})
	c.ExpiredClient = c.issue(c.ca, "expired-client", leaf{cn: "root", expired: true})
	c.odd(here)
	return c
}

// odd makes what is wrong with more than a name or a date of its own.
func (c *Certs) odd(server leaf) {
	c.tb.Helper()
	var old, twin *authority
	twin, c.TwinCA = c.newAuthority("twin-ca", leaf{cn: "ca"})
	c.TwinServer = c.issue(twin, "twin-server", server)
	old, c.ExpiredCA = c.newAuthority("expired-ca", leaf{cn: "expired-ca", expired: true})
	future, clientOnly := server, server
	future.future, clientOnly.usage = true, x509.ExtKeyUsageClientAuth
	c.FutureServer = c.issue(c.ca, "future-server", future)
	c.ClientOnlyServer = c.issue(c.ca, "client-only-server", clientOnly)
	c.ServerOnlyClient = c.issue(c.ca, "server-only-client", leaf{cn: "root", usage: x509.ExtKeyUsageServerAuth})
	c.ExpiredCAServer = c.issue(old, "expired-ca-server", server)
	c.ExpiredCAClient = c.issue(old, "expired-ca-client", leaf{cn: "root"})
}

// ClientFor issues a client certificate with a common name of its own.
func (c *Certs) ClientFor(cn string) Pair {
	c.tb.Helper()
	return c.issue(c.ca, "client-"+cn, leaf{cn: cn})
}

// MutualTLS is the certificates for a cluster whose clients must show one, and
// whose members talk with TLS too.
func (c *Certs) MutualTLS() *local.TLS {
	return &local.TLS{
		CA: c.CA, Cert: c.Server.Cert, Key: c.Server.Key, ClientAuth: true, Peers: true,
		ClientCert: c.Client.Cert, ClientKey: c.Client.Key,
	}
}

// ServerTLS is the certificates for a cluster that asks clients for none.
func (c *Certs) ServerTLS() *local.TLS {
	return &local.TLS{CA: c.CA, Cert: c.Server.Cert, Key: c.Server.Key}
}

func (c *Certs) newAuthority(name string, l leaf) (*authority, string) {
	c.tb.Helper()
	key := c.newKey()
	tmpl := c.template(l)
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	c.must(err)
	cert, err := x509.ParseCertificate(der)
	c.must(err)
	path := filepath.Join(c.dir, name+".pem")
	c.writePEM(path, "CERTIFICATE", der)
	return &authority{cert: cert, key: key}, path
}

func (c *Certs) issue(ca *authority, name string, l leaf) Pair {
	c.tb.Helper()
	key := c.newKey()
	der, err := x509.CreateCertificate(rand.Reader, c.template(l), ca.cert, &key.PublicKey, ca.key)
	c.must(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	c.must(err)
	p := Pair{Cert: filepath.Join(c.dir, name+".pem"), Key: filepath.Join(c.dir, name+"-key.pem")}
	c.writePEM(p.Cert, "CERTIFICATE", der)
	c.writePEM(p.Key, "EC PRIVATE KEY", keyDER)
	return p
}

func (c *Certs) template(l leaf) *x509.Certificate {
	c.tb.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	c.must(err)
	from, until := time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	if l.expired {
		until = time.Now().Add(-time.Hour)
	}
	if l.future {
		from, until = until, until.Add(24*time.Hour)
	}
	// Members present their server certificate as clients of each other.
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if l.usage != 0 {
		usage = []x509.ExtKeyUsage{l.usage}
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: l.cn, Organization: []string{"kvd tests"}},
		NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage,
		IPAddresses: l.ips, DNSNames: l.dns,
	}
}

func (c *Certs) newKey() *ecdsa.PrivateKey {
	c.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c.must(err)
	return key
}

func (c *Certs) writePEM(path, kind string, der []byte) {
	c.tb.Helper()
	c.must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (c *Certs) must(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatalf("making certificates: %v", err)
	}
}
