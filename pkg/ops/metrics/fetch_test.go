package metrics_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

func TestFetch(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			_, _ = w.Write([]byte(hist))
		case "/big/metrics":
			w.Header().Set("Content-Length", strconv.Itoa(metrics.MaxBody/30*32))
			_, _ = w.Write([]byte(strings.Repeat("# a comment that goes on and on\n", metrics.MaxBody/30)))
		case "/denied/metrics":
			w.WriteHeader(http.StatusForbidden)
		case "/slow/metrics":
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
			}
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer srv.Close()
	for _, address := range []string{srv.URL, srv.URL + "/", srv.URL + "/metrics", strings.TrimPrefix(srv.URL, "http://")} {
		s, err := metrics.Fetch(t.Context(), srv.Client(), plain(srv, address))
		if err != nil || !s.Has("h") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for path, want := range map[string]struct {
		kind  fault.Kind
		cause string
	}{
		"/big": {fault.Unavailable, "metrics_too_large"}, "/denied": {fault.Denied, "metrics_status"},
		"/nothing": {fault.Unavailable, "metrics_status"}, "/slow": {fault.Unavailable, "metrics_unreachable"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if path == "/big" {
			ctx = t.Context()
		}
		_, err := metrics.Fetch(ctx, srv.Client(), srv.URL+path)
		cancel()
		if fault.KindOf(err) != want.kind || fault.CauseOf(err) != want.cause {
			t.Errorf("%s: %v (%s, %s)", path, err, fault.KindOf(err), fault.CauseOf(err))
		}
	}
	closed := srv.URL
	srv.Close()
	if _, err := metrics.Fetch(t.Context(), http.DefaultClient, closed); fault.CauseOf(err) != "metrics_unreachable" || fault.HintOf(err) == "" {
		t.Errorf("closed port: %v", err)
	}
}

// plain gives the address a scheme where the client of a test server would
// otherwise be taken for one with TLS.
func plain(srv *httptest.Server, address string) string {
	if tr, ok := srv.Client().Transport.(*http.Transport); ok && tr.TLSClientConfig != nil && !strings.Contains(address, "://") {
		return "http://" + address
	}
	return address
}

func TestFetchTLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(hist)) }))
	defer srv.Close()
	if _, err := metrics.Fetch(t.Context(), srv.Client(), strings.TrimPrefix(srv.URL, "https://")); err != nil {
		t.Errorf("with the CA, no scheme: %v", err)
	}
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}}
	if _, err := metrics.Fetch(t.Context(), stranger, srv.URL); fault.KindOf(err) != fault.Denied || fault.CauseOf(err) != "metrics_certificate" {
		t.Errorf("without the CA: %v", err)
	}
}

func TestOverrides(t *testing.T) {
	o, err := metrics.ParseOverrides([]string{"cp-1=http://127.0.0.1:2381", "ab12=10.0.0.1:2381/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, id, want string }{
		{"cp-1", "1", "http://127.0.0.1:2381"}, {"cp-2", "ab12", "10.0.0.1:2381/metrics"}, {"cp-3", "3", "client"}, {"", "", "client"},
	} {
		if got := o.For(tc.name, tc.id, "client"); got != tc.want {
			t.Errorf("For(%q, %q) = %q, want %q", tc.name, tc.id, got, tc.want)
		}
	}
	if got := o.Unknown([]string{"cp-1"}); len(got) != 1 || got[0] != "ab12" {
		t.Errorf("unknown: %v", got)
	}
	for _, bad := range []string{"", "cp-1", "=http://x", "cp-1=", "cp-1=unix:///tmp/x", "cp-1=http://"} {
		if _, err := metrics.ParseOverrides([]string{bad}); fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A member that does not accept our certificate says so in a TLS alert, whichever it
// chooses: that is no reason to look for its metrics elsewhere.
func TestFetchWithACertificateThatIsNotAccepted(t *testing.T) {
	certs := servertest.NewCerts(t)
	load := func(p servertest.Pair) tls.Certificate {
		c, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ca, err := os.ReadFile(certs.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(hist)) }))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{load(certs.Server)}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	for name, with := range map[string][]tls.Certificate{"none": nil, "another CA": {load(certs.OtherClient)}, "expired": {load(certs.ExpiredClient)}} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			own := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(with) == 0 {
					return &tls.Certificate{}, nil
				}
				return &with[0], nil
			}
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, GetClientCertificate: own, MinVersion: version, MaxVersion: version}}}
			if _, err := metrics.Fetch(t.Context(), c, srv.URL); fault.KindOf(err) != fault.Denied || fault.CauseOf(err) != "metrics_certificate" || !strings.Contains(fault.HintOf(err), "--cert") {
				t.Errorf("%s, %s: %v (%s, %s)", name, tls.VersionName(version), err, fault.CauseOf(err), fault.HintOf(err))
			}
		}
	}
}

// A port for clients that serves gRPC alone, as k3s and RKE2 have it, is told from one that
// is broken, plain and behind TLS.
func TestFetchFromAPortWithoutPages(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	for scheme, with := range map[string]*local.TLS{"http": nil, "https": certs.ServerTLS()} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pages := l.Addr().String()
		_ = l.Close()
		s := servertest.Start(t, servertest.Options{Options: local.Options{TLS: with, Args: []string{"--listen-client-http-urls=" + scheme + "://" + pages}}})
		// What the server sends, or that it hangs up, may be there before the request is sent.
		late := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { time.Sleep(300 * time.Millisecond) }})
		for when, ctx := range map[string]context.Context{"at once": t.Context(), "late": late} {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a test's own server
			_, err = metrics.Fetch(ctx, client, s.Endpoint(0))
			if fault.CauseOf(err) != "metrics_not_http" || !strings.Contains(fault.HintOf(err), "http://127.0.0.1:2381") || !strings.Contains(err.Error(), "gRPC alone") {
				t.Errorf("%s, %s: %v (%s)", scheme, when, err, fault.HintOf(err))
			}
		}
	}
}

// An address with http:// of a port that speaks TLS is not taken for a port of gRPC alone,
// whether the port hangs up, as etcd's does, or answers with an alert.
func TestFetchInPlainTextFromTLS(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{Options: local.Options{TLS: servertest.NewCerts(t).ServerTLS()}})
	alert, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, io.EOF }})
	if err != nil {
		t.Fatal(err)
	}
	defer alert.Close() //nolint:errcheck // a test's own
	go func() {
		for {
			conn, err := alert.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	for _, at := range []string{strings.TrimPrefix(s.Endpoint(0), "https://"), alert.Addr().String()} {
		_, err := metrics.Fetch(t.Context(), http.DefaultClient, "http://"+at)
		if fault.CauseOf(err) != "metrics_not_http" || !strings.Contains(err.Error(), "TLS") || !strings.Contains(fault.HintOf(err), "https://") {
			t.Errorf("%s: %v (%s)", at, err, fault.HintOf(err))
		}
	}
}
