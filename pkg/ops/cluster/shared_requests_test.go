package cluster_test

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/servertest"
)

// A proxy that shares out requests, not connections, answers with one cluster's status and
// another's member list: neither is taken for the other's.
func TestRequestsSharedOutToTwoClusters(t *testing.T) {
	t.Parallel()
	a, b := servertest.Start(t, servertest.Options{}), servertest.Start(t, servertest.Options{})
	v, err := connect(t, ep(requestsInTurns(t, a.Endpoint(0), b.Endpoint(0)))).VotersView(t.Context())
	if fault.KindOf(err) != fault.Refused || fault.CauseOf(err) != cluster.CauseOtherCluster {
		t.Errorf("not refused: %v", err)
	}
	if len(v.Strangers) != 1 || !v.Strangers[0].Shared || v.Strangers[0].ClusterID == v.ID || fault.CauseOf(v.ListErr) != cluster.CauseOtherCluster {
		t.Errorf("strangers %+v, list %v", v.Strangers, v.ListErr)
	}
}

// requestsInTurns is a proxy of HTTP/2 without TLS.
func requestsInTurns(t *testing.T, endpoints ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var h2 http.Protocols
	h2.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &h2}
	var n atomic.Int64
	s := &http.Server{Protocols: &h2, Handler: &httputil.ReverseProxy{
		Transport: tr, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(endpoints[int(n.Add(1)-1)%len(endpoints)])
			if err == nil {
				r.SetURL(to)
			}
			r.Out.Header.Set("Te", "trailers") // gRPC asks for it, and a proxy takes it away
		},
	}}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); tr.CloseIdleConnections() })
	return "http://" + l.Addr().String()
}
