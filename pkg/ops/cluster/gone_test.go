package cluster_test

import (
	"encoding/json"
	"strings"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// Members that serve TLS and advertise http:// are there, and nobody is told to write
// https:// who has: it is the member's own URL that is wrong.
func TestViewAdvertisedWithTheWrongScheme(t *testing.T) {
	t.Parallel()
	certs := servertest.NewCerts(t)
	s := three(t, local.Options{TLS: certs.ServerTLS()})
	for i := range 3 { // the ports are known once they run
		if err := s.Restart(t.Context(), i, "--advertise-client-urls="+strings.Replace(s.Endpoint(i), "https", "http", 1)); err != nil {
			t.Fatal(err)
		}
	}
	v := view(t, connect(t, with(ep(s.Endpoint(0)), certs.CA, servertest.Pair{})))
	silent := v.Silent()
	if len(silent) != 2 || !v.Commits {
		t.Fatalf("commits %v, members %s", v.Commits, names(v))
	}
	for _, m := range silent {
		if fault.CauseOf(m.Err) != cluster.CauseTLSRequired || cluster.MayBeGone(m.Err) || !strings.Contains(fault.HintOf(m.Err), "--advertise-client-urls") {
			t.Errorf("%s: %v, hint %s", m.Name, m.Err, fault.HintOf(m.Err))
		}
	}
	raw, err := json.Marshal(v)
	if err != nil || !strings.Contains(string(raw), `"failures_tolerated":null`) {
		t.Errorf("says how many failures are survived, which is not known: %s, %v", raw, err)
	}
}
