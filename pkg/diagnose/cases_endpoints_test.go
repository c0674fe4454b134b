package diagnose_test

import (
	"strings"
	"testing"

	"kvd/pkg/diagnose"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
)

// Case C80: each endpoint that does not answer has its own cause, and those that do
// are not lost.
func TestCaseEndpoints(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	r := look(t, connect(t, c, c.Endpoint(0), "http://127.0.0.1:1", strings.Replace(c.Endpoint(0), "http", "https", 1), c.PeerURL(0)))
	causes := map[string]bool{}
	for _, f := range r.Findings {
		if f.ID != "KVD-NET-001" || len(f.Remedy) == 0 {
			t.Errorf("%+v", f)
		}
		causes[f.Evidence[0].Text] = true
	}
	for _, want := range []string{cluster.CauseConnectionRefused, cluster.CauseTLSNotSupported, cluster.CausePeerPort} {
		if !causes[want] {
			t.Errorf("%s is not among %v", want, causes)
		}
	}
	_, err := diagnose.Collect(t.Context(), connect(t, c, "http://127.0.0.1:1"), options(), discard)
	if fault.CauseOf(err) != cluster.CauseConnectionRefused {
		t.Errorf("nobody answers: %v", err)
	}
}
