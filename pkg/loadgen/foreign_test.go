package loadgen

import (
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/servertest"
)

// Kubernetes is known by its prefixes, and with one that nobody knows by the key at which
// its API servers compact. What loads leave is not taken for it.
func TestKubernetesIsKnown(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{})
	cli := c.Client(t)
	client, err := cluster.Connect(cluster.Config{Endpoints: c.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	q, err := client.Quorum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"/tenant/pods/ns/p", Root + "compact_rev_key", Root + "registry/pods/ns/p", "/registryx/y"} {
		if _, err := cli.Put(t.Context(), key, "1"); err != nil {
			t.Fatal(err)
		}
		if err := checkForeign(t.Context(), q, false); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, key := range []string{"compact_rev_key", "/registry/events/ns/e", "/kubernetes.io/pods/ns/p"} {
		if _, err := cli.Put(t.Context(), key, "1"); err != nil {
			t.Fatal(err)
		}
		err := checkForeign(t.Context(), q, false)
		if fault.CauseOf(err) != causeKubernetes || !strings.Contains(err.Error(), strings.TrimSuffix(key[:8], "/")) {
			t.Errorf("%s: %v", key, err)
		}
		if err := checkForeign(t.Context(), q, true); err != nil {
			t.Errorf("%s, allowed: %v", key, err)
		}
		if _, err := cli.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
}
