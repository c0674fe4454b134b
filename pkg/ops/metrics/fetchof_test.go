package metrics_test

import (
	"net/http"
	"testing"

	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

// TestFetchOf asks for one member's metrics where another one answers, as a load
// balancer has it.
func TestFetchOf(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Options{Options: local.Options{Members: 3, Args: []string{"--unsafe-no-fsync"}}})
	ids := map[string]uint64{}
	list, err := c.Client(t).MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		ids[m.Name] = m.ID
	}
	client := &http.Client{}
	for i := range 3 {
		for j := range 3 {
			s, err := metrics.FetchOf(t.Context(), client, c.MetricsURL(i), ids[c.Name(j)])
			switch {
			case i == j && (err != nil || !s.Has(metrics.DBSize)):
				t.Errorf("%s's own: %v", c.Name(i), err)
			case i != j && (fault.CauseOf(err) != "metrics_of_another" || fault.KindOf(err) != fault.Unavailable):
				t.Errorf("%s's taken for %s's: %v", c.Name(i), c.Name(j), err)
			}
		}
		if _, err := metrics.FetchOf(t.Context(), client, c.MetricsURL(i), 0); err != nil {
			t.Errorf("of whomever: %v", err)
		}
	}
}
