package cluster_test

import (
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// A password in an endpoint serves nothing, and must not get into messages and logs.
func TestEndpointWithAUser(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"http://root:secret@127.0.0.1:2379", "https://root:secret@[::1]:2379", "http://root@127.0.0.1:2379"} {
		_, err := cluster.Connect(cluster.Config{Endpoints: []string{"http://127.0.0.1:2379", endpoint}})
		if fault.KindOf(err) != fault.Usage || fault.CauseOf(err) != cluster.CauseBadEndpoint || strings.Contains(err.Error(), "secret") || !strings.Contains(fault.HintOf(err), "--user") {
			t.Errorf("%s: %v (%s)", endpoint, err, fault.HintOf(err))
		}
	}
}
