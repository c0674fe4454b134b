package cluster_test

import (
	"context"
	"net"
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

// A certificate of ours that has expired says nothing of a port where nobody asks for it.
func TestExpiredCertificateOfOursAndAPortThatIsClosed(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	wantCause(t, with(ep("https://"+closedPort(t)), certs.CA, certs.ExpiredClient), cluster.CauseConnectionRefused, fault.Unavailable)
	silent := listener(t, func(net.Conn) {})
	wantCause(t, with(ep("https://"+silent), certs.CA, certs.ExpiredClient), cluster.CauseNoAnswer, fault.Unavailable)
}
