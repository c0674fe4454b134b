package cluster_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// With --listen-client-http-urls the clients' port speaks gRPC only. It is etcd's all
// the same: a request that gets no answer there in time is just late.
func TestPortForGRPCOnly(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	for name, tls := range map[string]*local.TLS{"plain": nil, "tls": certs.ServerTLS(), "mtls": certs.MutualTLS()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := "http://"
			if tls != nil {
				scheme = "https://"
			}
			pages := scheme + closedPort(t)
			s := servertest.Start(t, servertest.Options{Options: local.Options{TLS: tls, Args: []string{"--listen-client-http-urls=" + pages}}})
			cfg, other := ep(s.Endpoint(0)), ep(pages)
			if tls != nil {
				cfg, other = with(cfg, certs.CA, certs.Client), with(other, certs.CA, certs.Client)
				wantCause(t, other, cluster.CauseMetricsPort, fault.Unavailable)
			}
			c := connect(t, cfg)
			m, err := c.Member(view(t, c).Members[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Explain(t.Context(), "get", context.DeadlineExceeded); fault.CauseOf(err) != cluster.CauseDeadline {
				t.Errorf("an answer that is late: %v", err)
			}
			if tls == nil {
				cfg.Endpoints = []string{"https://" + hostOf(s.Endpoint(0))}
				cfg.InsecureSkipVerify = true
				wantCause(t, cfg, cluster.CauseTLSNotSupported, fault.Unavailable)
			} else {
				wantCause(t, ep("http://"+hostOf(s.Endpoint(0))), cluster.CauseTLSRequired, fault.Unavailable)
			}
		})
	}
}

// Behind a proxy that passes on HTTP/1 only, etcd's pages are there and its clients are not
// served: the port before it is not etcd's own for pages.
func TestProxyWithoutHTTP2BehindIt(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options{})
	etcd, err := url.Parse(s.Endpoint(0))
	if err != nil {
		t.Fatal(err)
	}
	passes := httputil.NewSingleHostReverseProxy(etcd)
	for code, cause := range map[int]string{http.StatusBadGateway: cluster.CauseNotEtcd, 0: cluster.CauseMetricsPort} {
		proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if code != 0 && r.Method == http.MethodPost {
				http.Error(w, "upstream", code)
				return
			}
			passes.ServeHTTP(w, r)
		}))
		proxy.EnableHTTP2 = true
		proxy.StartTLS()
		t.Cleanup(proxy.Close)
		e := wantCause(t, cluster.Config{Endpoints: []string{proxy.URL}, InsecureSkipVerify: true}, cause, fault.Unavailable)
		if !strings.Contains(e.Msg, "a proxy") || !strings.Contains(e.Hint, "HTTP/2") {
			t.Errorf("%d: %v (%s)", code, e, e.Hint)
		}
	}
}

// A certificate of ours that has expired says nothing of a port where nobody asks for it.
func TestExpiredCertificateOfOursAndAPortThatIsClosed(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	wantCause(t, with(ep("https://"+closedPort(t)), certs.CA, certs.ExpiredClient), cluster.CauseConnectionRefused, fault.Unavailable)
	silent := listener(t, func(net.Conn) {})
	wantCause(t, with(ep("https://"+silent), certs.CA, certs.ExpiredClient), cluster.CauseNoAnswer, fault.Unavailable)
}
