package cluster_test

import (
	"testing"

	"kvd/pkg/ops/metrics"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// The metrics of an endpoint that is given without a scheme are read as often as one
// likes, and with TLS only where the bundle is for that.
func TestMetricsOfAnEndpointWithoutAScheme(t *testing.T) {
	s := servertest.Start(t, servertest.Options{Options: local.Options{Members: 1}})
	bare := hostOf(s.Endpoint(0))
	http := connect(t, ep(bare)).HTTPClient()
	defer http.CloseIdleConnections()
	for i := range 3 {
		if _, err := metrics.Fetch(t.Context(), http, bare); err != nil {
			t.Errorf("reading %d: %v", i+1, err)
		}
	}
}
