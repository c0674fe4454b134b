package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// dialTimeouts are the timeouts each cause must be found within: the default,
// and a short one.
var dialTimeouts = []time.Duration{cluster.DefaultDialTimeout, time.Second}

// wantCause takes a view of one endpoint, which must fail with the cause and
// within the dial timeout.
func wantCause(t *testing.T, cfg cluster.Config, cause string, kind fault.Kind) *fault.Error {
	t.Helper()
	var last *fault.Error
	for _, d := range dialTimeouts {
		cfg.DialTimeout = d
		c, err := cluster.Connect(cfg)
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		begun := time.Now()
		_, err = c.View(t.Context())
		took := time.Since(begun)
		if cerr := c.Close(); cerr != nil {
			t.Errorf("close: %v", cerr)
		}
		if err == nil {
			t.Fatalf("%v: no error, want %s", cfg.Endpoints, cause)
		}
		if !errors.As(err, &last) || last.Cause != cause || last.Kind != kind {
			t.Fatalf("%v: %s / %s, want %s / %s: %v", cfg.Endpoints, fault.CauseOf(err), fault.KindOf(err), cause, kind, err)
		}
		if took > d {
			t.Errorf("%s took %v, more than the dial timeout %v", cause, took, d)
		}
		if strings.Contains(last.Error(), "context deadline exceeded") || strings.Contains(last.Error(), "rpc error") {
			t.Errorf("not for people: %v", last)
		}
		if last.Hint == "" || last.Subject != cfg.Endpoints[0] {
			t.Errorf("no hint or no subject: %+v", last)
		}
	}
	t.Logf("%v\n    hint: %s", last, last.Hint)
	return last
}

func ep(urls ...string) cluster.Config { return cluster.Config{Endpoints: urls} }

func hostOf(url string) string { return url[strings.Index(url, "://")+3:] }

// with returns cfg with the certificates.
func with(cfg cluster.Config, ca string, p servertest.Pair) cluster.Config {
	cfg.CACert, cfg.Cert, cfg.Key = ca, p.Cert, p.Key
	return cfg
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// listener accepts connections and hands them to serve.
func listener(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	servertest.Accept(t, l, func(conn net.Conn) {
		t.Cleanup(func() { conn.Close() })
		go serve(conn)
	})
	return l.Addr().String()
}

// ending is a server that ends when the probe asks it: it takes that connection still.
func ending(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			start := make([]byte, 3)
			if _, err := io.ReadFull(conn, start); err == nil && string(start) == "GET" {
				l.Close()
			}
			conn.Close()
		}
	}()
	return l.Addr().String()
}

func TestCausesWithoutEtcd(t *testing.T) {
	certs := servertest.NewCerts(t)
	mute := func(net.Conn) {}
	ssh := func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-OpenSSH_9.6\r\n") }
	hangUp := func(c net.Conn) { c.Close() }
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello</html>") }))
	t.Cleanup(page.Close)
	webTLS := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(webTLS.Close)
	h2 := httptest.NewUnstartedServer(http.NotFoundHandler())
	h2.EnableHTTP2 = true
	h2.StartTLS()
	t.Cleanup(h2.Close)
	trusting := func(url string) cluster.Config {
		return cluster.Config{Endpoints: []string{url}, InsecureSkipVerify: true}
	}

	for _, c := range []struct {
		name  string
		cfg   cluster.Config
		cause string
		kind  fault.Kind
	}{
		{"closed", ep("http://" + closedPort(t)), cluster.CauseConnectionRefused, fault.Unavailable},
		{"closed, TLS", with(ep("https://"+closedPort(t)), certs.CA, certs.Client), cluster.CauseConnectionRefused, fault.Unavailable},
		{"closed, no scheme", ep(closedPort(t)), cluster.CauseConnectionRefused, fault.Unavailable},
		{"closed, localhost", ep("http://localhost:" + strings.Split(closedPort(t), ":")[1]), cluster.CauseConnectionRefused, fault.Unavailable},
		{"mute", ep("http://" + listener(t, mute)), cluster.CauseNoAnswer, fault.Unavailable},
		{"mute, TLS", with(ep("https://"+listener(t, mute)), certs.CA, certs.Client), cluster.CauseNoAnswer, fault.Unavailable},
		{"mute, no scheme", ep(listener(t, mute)), cluster.CauseNoAnswer, fault.Unavailable},
		{"not etcd, 404", ep(web.URL), cluster.CauseNotEtcd, fault.Unavailable},
		{"not etcd, 200", ep(page.URL), cluster.CauseNotEtcd, fault.Unavailable},
		{"not etcd, TLS", trusting(webTLS.URL), cluster.CauseNotEtcd, fault.Unavailable},
		{"not etcd, HTTP/2", trusting(h2.URL), cluster.CauseNotEtcd, fault.Unavailable},
		{"not etcd, ssh", ep("http://" + listener(t, ssh)), cluster.CauseNotEtcd, fault.Unavailable},
		{"not etcd, ssh for https", trusting("https://" + listener(t, ssh)), cluster.CauseNotEtcd, fault.Unavailable},
		{"not etcd, hangs up", ep("http://" + listener(t, hangUp)), cluster.CauseNotEtcd, fault.Unavailable},
		{"ends just now", ep("http://" + ending(t)), cluster.CauseConnectionRefused, fault.Unavailable},
		{"web server over TLS, endpoint http", ep("http://" + hostOf(webTLS.URL)), cluster.CauseTLSRequired, fault.Unavailable},
		{"web server without TLS, endpoint https", trusting("https://" + hostOf(web.URL)), cluster.CauseNotEtcd, fault.Unavailable},
		{"no port", ep("http://127.0.0.1"), cluster.CauseBadEndpoint, fault.Usage},
		{"no such port", ep("http://127.0.0.1:99999"), cluster.CauseBadEndpoint, fault.Usage},
		{"link-local without an interface", ep("http://[fe80::1]:2379"), cluster.CauseUnreachable, fault.Unavailable},
		{"another scheme", ep("ftp://127.0.0.1:2379"), cluster.CauseBadEndpoint, fault.Usage},
		{"unknown host", ep("http://etcd.invalid:2379"), cluster.CauseDNSFailure, fault.Unavailable},
		{"unknown host, TLS", trusting("https://no-such-host.invalid:2379"), cluster.CauseDNSFailure, fault.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantCause(t, c.cfg, c.cause, c.kind)
		})
	}
}

func TestCausesPlain(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{})
	certs := servertest.NewCerts(t)
	https := "https://" + hostOf(s.Endpoint(0))
	wantCause(t, with(ep(https), certs.CA, certs.Client), cluster.CauseTLSNotSupported, fault.Unavailable)
	wantCause(t, cluster.Config{Endpoints: []string{https}, InsecureSkipVerify: true}, cluster.CauseTLSNotSupported, fault.Unavailable)
	wantCause(t, ep(https), cluster.CauseTLSNotSupported, fault.Unavailable)
	// Without a scheme the material decides.
	wantCause(t, with(ep(hostOf(https)), certs.CA, servertest.Pair{}), cluster.CauseTLSNotSupported, fault.Unavailable)
	wantCause(t, ep(s.PeerURL(0)), cluster.CausePeerPort, fault.Unavailable)
	wantCause(t, ep(hostOf(s.PeerURL(0))), cluster.CausePeerPort, fault.Unavailable)
	wantCause(t, ep(s.MetricsURL(0)), cluster.CauseMetricsPort, fault.Unavailable)

	for _, good := range []string{s.Endpoint(0), hostOf(s.Endpoint(0)), s.Endpoint(0) + "/"} {
		c := connect(t, ep(good))
		v := view(t, c)
		if len(v.Members) != 1 || v.Members[0].Err != nil || v.Members[0].Endpoint != good {
			t.Errorf("%s: %+v", good, v.Members)
		}
	}

	pause(t, s, 0)
	wantCause(t, ep(s.Endpoint(0)), cluster.CauseNoAnswer, fault.Unavailable)
	if err := s.Resume(0); err != nil {
		t.Fatal(err)
	}
	s.Kill(0)
	wantCause(t, ep(s.Endpoint(0)), cluster.CauseConnectionRefused, fault.Unavailable)
}

func TestCausesTLS(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	none := servertest.Pair{}
	s := servertest.Start(t, servertest.Options{Options: local.Options{TLS: certs.ServerTLS()}})
	wantCause(t, ep("http://"+hostOf(s.Endpoint(0))), cluster.CauseTLSRequired, fault.Unavailable)
	wantCause(t, ep(hostOf(s.Endpoint(0))), cluster.CauseTLSRequired, fault.Unavailable)
	wantCause(t, with(ep("http://"+hostOf(s.Endpoint(0))), certs.CA, certs.Client), cluster.CauseTLSRequired, fault.Unavailable)
	wantCause(t, with(ep(s.Endpoint(0)), certs.OtherCA, none), cluster.CauseUnknownCA, fault.Denied)
	wantCause(t, ep(s.Endpoint(0)), cluster.CauseUnknownCA, fault.Denied)

	cfg := with(ep(s.Endpoint(0)), certs.CA, none)
	if v := view(t, connect(t, cfg)); v.Members[0].Err != nil {
		t.Errorf("with the CA: %v", v.Members[0].Err)
	}
	cfg.ServerName = "localhost"
	if v := view(t, connect(t, cfg)); v.Members[0].Err != nil {
		t.Errorf("with the server name: %v", v.Members[0].Err)
	}
	cfg.ServerName = "etcd.example"
	wantCause(t, cfg, cluster.CauseNameMismatch, fault.Denied)
	skip := cluster.Config{Endpoints: []string{s.Endpoint(0)}, InsecureSkipVerify: true}
	if v := view(t, connect(t, skip)); v.Members[0].Err != nil {
		t.Errorf("without verification: %v", v.Members[0].Err)
	}
}

func TestCausesServerCertificate(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	for _, c := range []struct {
		name  string
		pair  servertest.Pair
		cause string
		says  string
	}{
		{"another name", certs.WrongServer, cluster.CauseNameMismatch, "elsewhere.example"},
		{"no name", certs.NoSANServer, cluster.CauseNameMismatch, "no name at all"},
		{"expired", certs.ExpiredServer, cluster.CauseCertExpired, "the server's certificate expired on " + time.Now().UTC().Format("2006-")},
		{"another CA", certs.OtherServer, cluster.CauseUnknownCA, "other-ca"},
		{"not yet", certs.FutureServer, cluster.CauseCertExpired, "the server's certificate is not valid before "},
		{"no server's", certs.ClientOnlyServer, cluster.CauseCertUnfit, "its extended key usage has no serverAuth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tls := &local.TLS{CA: certs.CA, Cert: c.pair.Cert, Key: c.pair.Key}
			s := servertest.Start(t, servertest.Options{Options: local.Options{TLS: tls}})
			e := wantCause(t, with(ep(s.Endpoint(0)), certs.CA, servertest.Pair{}), c.cause, fault.Denied)
			if !strings.Contains(e.Error(), c.says) {
				t.Errorf("%v: want %q in it", e, c.says)
			}
			wantCause(t, with(ep(s.Endpoint(0)), certs.CA, certs.Client), c.cause, fault.Denied)
		})
	}
}

// What is wrong with the CA is not told as a fault of what it has issued: renewing that,
// as is right for a certificate of its own, would not help.
func TestCausesOfTheCA(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	start := func(tls local.TLS) cluster.Config {
		return ep(servertest.Start(t, servertest.Options{Options: local.Options{TLS: &tls}}).Endpoint(0))
	}
	says := func(e *fault.Error, what string) {
		t.Helper()
		if !strings.Contains(e.Error(), what) || strings.Contains(e.Hint, "certs renew etcd-") {
			t.Errorf("%v: want %q; hint: %s", e, what, e.Hint)
		}
	}
	old := start(local.TLS{CA: certs.ExpiredCA, Cert: certs.ExpiredCAServer.Cert, Key: certs.ExpiredCAServer.Key})
	says(wantCause(t, with(old, certs.ExpiredCA, servertest.Pair{}), cluster.CauseCertExpired, fault.Denied),
		`the CA "CN=expired-ca,O=kvd tests" that the server's certificate is issued by expired on `)

	good := start(local.TLS{CA: certs.CA, Cert: certs.Server.Cert, Key: certs.Server.Key})
	says(wantCause(t, with(good, certs.TwinCA, servertest.Pair{}), cluster.CauseUnknownCA, fault.Denied), "the CA of that name in the file has another key")

	// A server ends the handshake because of its CA as if it were because of ours.
	mutual := start(local.TLS{CA: certs.ExpiredCA, Cert: certs.Server.Cert, Key: certs.Server.Key, ClientAuth: true, ClientCert: certs.ExpiredCAClient.Cert, ClientKey: certs.ExpiredCAClient.Key})
	says(wantCause(t, with(mutual, certs.CA, certs.ExpiredCAClient), cluster.CauseCertExpired, fault.Denied), "our client certificate "+certs.ExpiredCAClient.Cert+" is good until ")
	both := filepath.Join(t.TempDir(), "both.pem")
	var pem []byte
	for _, ca := range []string{certs.CA, certs.ExpiredCA} {
		raw, err := os.ReadFile(ca)
		if err != nil {
			t.Fatal(err)
		}
		pem = append(pem, raw...)
	}
	if err := os.WriteFile(both, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	says(wantCause(t, with(mutual, both, certs.ExpiredCAClient), cluster.CauseCertExpired, fault.Denied), `the CA "CN=expired-ca,O=kvd tests" that our client certificate `)
}

// What is gone behind a port that something else holds open: a load balancer without a
// server, a port-forward to a pod that has ended.
func TestCausesHungUp(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	reset := func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	for name, serve := range map[string]func(net.Conn){"closed": func(c net.Conn) { c.Close() }, "reset": reset} {
		for _, cfg := range []cluster.Config{ep("http://" + listener(t, serve)), with(ep("https://"+listener(t, serve)), certs.CA, certs.Client)} {
			if e := wantCause(t, cfg, cluster.CauseNotEtcd, fault.Unavailable); !strings.Contains(e.Error(), "ends them without a word") {
				t.Errorf("%s: %v", name, e)
			}
		}
	}
}

func TestCausesClientCertificate(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	s := servertest.Start(t, servertest.Options{Options: local.Options{TLS: certs.MutualTLS()}})
	at := ep(s.Endpoint(0))
	none := servertest.Pair{}
	wantCause(t, with(at, certs.CA, none), cluster.CauseClientCertRequired, fault.Denied)
	wantCause(t, cluster.Config{Endpoints: at.Endpoints, InsecureSkipVerify: true}, cluster.CauseClientCertRequired, fault.Denied)
	wantCause(t, with(at, certs.CA, certs.OtherClient), cluster.CauseClientCertRejected, fault.Denied)
	e := wantCause(t, with(at, certs.CA, certs.ExpiredClient), cluster.CauseCertExpired, fault.Denied)
	if !strings.Contains(e.Error(), "our client certificate "+certs.ExpiredClient.Cert+" expired on ") {
		t.Errorf("does not say whose: %v", e)
	}
	wantCause(t, with(at, certs.OtherCA, certs.Client), cluster.CauseUnknownCA, fault.Denied)
	e = wantCause(t, with(at, certs.CA, certs.ServerOnlyClient), cluster.CauseClientCertRejected, fault.Denied)
	if !strings.Contains(e.Error(), "extended key usage is not that of a client") {
		t.Errorf("does not say what it lacks: %v", e)
	}
	// The peer port wants a certificate of its own kind.
	wantCause(t, with(ep(s.PeerURL(0)), certs.CA, certs.Client), cluster.CausePeerPort, fault.Unavailable)
	// It hangs up on one that names hosts, none of which we are; the clients' port takes it.
	e = wantCause(t, with(ep(s.PeerURL(0)), certs.CA, certs.WrongServer), cluster.CauseClientCertRejected, fault.Denied)
	if !strings.Contains(e.Hint, "this names elsewhere.example") || !strings.Contains(e.Hint, "--listen-peer-urls") {
		t.Errorf("hint %s", e.Hint)
	}
	if v := view(t, connect(t, with(at, certs.CA, certs.WrongServer))); v.Members[0].Err != nil {
		t.Errorf("with a certificate that names another host: %v", v.Members[0].Err)
	}
	if v := view(t, connect(t, with(at, certs.CA, certs.Client))); v.Members[0].Err != nil || v.Leader != v.Members[0].ID {
		t.Errorf("with the right certificate: %+v", v)
	}
	pause(t, s, 0)
	wantCause(t, with(at, certs.CA, certs.Client), cluster.CauseNoAnswer, fault.Unavailable)
}

func TestCausesAuth(t *testing.T) { // not parallel: what hashing a password takes is measured
	certs := servertest.NewCerts(t)
	for _, c := range []struct {
		name string
		tls  *local.TLS
	}{{"plain", nil}, {"tls", certs.ServerTLS()}} {
		t.Run(c.name, func(t *testing.T) {
			s := servertest.Start(t, servertest.Options{Options: local.Options{TLS: c.tls}})
			base := ep(s.Endpoint(0))
			if c.tls != nil {
				base.CACert = certs.CA
			}
			as := func(user, pw string) cluster.Config {
				cfg := base
				cfg.User, cfg.Password = user, pw
				return cfg
			}
			// A user where authentication is off is no error.
			if v := view(t, connect(t, as("root", "x"))); v.Members[0].Err != nil {
				t.Errorf("auth off: %v", v.Members[0].Err)
			}
			s.EnableAuth(t, servertest.User{Name: "app", Password: "app-pw", Prefix: "/app/"})
			wantCause(t, base, cluster.CauseAuthRequired, fault.Denied)
			wantCause(t, as("root", "wrong"), cluster.CauseAuthFailed, fault.Denied)
			wantCause(t, as("nobody", "x"), cluster.CauseAuthFailed, fault.Denied)

			// A user without the root role may look, and not touch.
			app := connect(t, as("app", "app-pw"))
			v := view(t, app)
			if v.Members[0].Err != nil {
				t.Fatalf("app: %v", v.Members[0].Err)
			}
			m, err := app.Member(v.Members[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			q, err := app.Quorum(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, getErr := m.Get(t.Context(), "health")
			_, alarmErr := q.AlarmDisarm(t.Context(), m.ID(), cluster.AlarmNoSpace)
			for what, err := range map[string]error{
				"defrag": m.Defragment(t.Context()), "get": getErr, "alarm disarm": alarmErr, "compact": q.Compact(t.Context(), 1, false),
			} {
				if fault.CauseOf(err) != cluster.CausePermissionDenied || fault.KindOf(err) != fault.Denied {
					t.Errorf("%s as app: %v", what, err)
				}
			}
			if _, err := m.Get(t.Context(), "/app/x"); err != nil {
				t.Errorf("own key: %v", err)
			}
			root := connect(t, as("root", servertest.RootPassword))
			v = view(t, root)
			if m, err = root.Member(v.Members[0].ID); err != nil {
				t.Fatal(err)
			}
			if err := m.Defragment(t.Context()); err != nil {
				t.Errorf("defrag as root: %v", err)
			}
			// A restart forgets the tokens, and cuts the connections.
			if err := s.Restart(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if v := view(t, root); v.Members[0].Err != nil {
				t.Errorf("after a restart: %v", v.Members[0].Err)
			}
			if _, err := m.Get(t.Context(), "/app/x"); err != nil {
				t.Errorf("after a restart: %v", err)
			}
		})
	}
}

// pause stops a member and waits until it really answers no more: SIGSTOP takes
// its time, and a connection made meanwhile would be of another kind.
func pause(t *testing.T, s *servertest.Cluster, i int) {
	t.Helper()
	if err := s.Pause(i); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 300 * time.Millisecond}
	for {
		resp, err := client.Get(s.MetricsURL(i) + "/health")
		if err != nil {
			return
		}
		resp.Body.Close()
	}
}

func connect(t *testing.T, cfg cluster.Config) *cluster.Client {
	t.Helper()
	c, err := cluster.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func view(t *testing.T, c *cluster.Client) cluster.View {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	v, err := c.View(ctx)
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	return v
}
