package ops

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
)

// Members before 3.6 tell their quota by their metrics alone, each its own. What their
// status says, or the user, goes before that.
func TestQuotasByMetrics(t *testing.T) {
	t.Parallel()
	endpoint := func(body string) (string, *atomic.Int32) {
		var asked atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			if body == "" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			fmt.Fprintf(w, "# TYPE etcd_server_quota_backend_bytes gauge\netcd_server_quota_backend_bytes %s\n", body)
		}))
		t.Cleanup(s.Close)
		return s.URL, &asked
	}
	const gib = 1 << 30
	for i, tc := range []struct {
		status cluster.Status
		body   string
		want   int64
		asked  int32
	}{
		{cluster.Status{}, "8.589934592e+09", 8 * gib, 1},
		{cluster.Status{}, "2.147483648e+09", 2 * gib, 1},
		{cluster.Status{}, "-1", cluster.QuotaDisabled, 1},
		{cluster.Status{}, "0", cluster.QuotaUnknown, 1}, // it has only begun to start
		{cluster.Status{}, "", cluster.QuotaUnknown, 1},
		{cluster.Status{Quota: gib, QuotaKnown: true}, "8.589934592e+09", gib, 0},
		{cluster.Status{Quota: gib, QuotaAssumed: true}, "8.589934592e+09", gib, 0},
	} {
		name := fmt.Sprintf("m%d", i)
		url, asked := endpoint(tc.body)
		view := cluster.View{Members: []cluster.Member{{ID: 9, Name: "down"}, {ID: 1, Name: name, Endpoint: url, Status: &tc.status}}}
		client, err := cluster.Connect(cluster.Config{Endpoints: []string{url}})
		if err != nil {
			t.Fatal(err)
		}
		got := WithQuotas(t.Context(), client, nil, view)
		if q := got.Members[1].Status.EffectiveQuota(); q != tc.want || asked.Load() != tc.asked || got.Members[0].Status != nil {
			t.Errorf("%s: %d after %d requests, want %d after %d", name, q, asked.Load(), tc.want, tc.asked)
		}
		if tc.want == 8*gib && view.Members[1].Status.QuotaKnown {
			t.Errorf("%s: the view that was given is changed", name)
		}
		// A fresh look has it as well, and --metrics-url where else the metrics are.
		fresh := cluster.View{Members: []cluster.Member{{ID: 1, Status: &cluster.Status{}}, {ID: 2, Status: &cluster.Status{}}}}
		fresh = assumeLike(fresh, got)
		others := int64(cluster.QuotaUnknown)
		if tc.status.QuotaAssumed { // the user's word is for all
			others = tc.want
		}
		if a, b := fresh.Members[0].Status.EffectiveQuota(), fresh.Members[1].Status.EffectiveQuota(); a != tc.want || b != others {
			t.Errorf("%s: a fresh look has %d and %d", name, a, b)
		}
		if tc.body == "" {
			url, _ := endpoint("4.294967296e+09")
			urls, err := metrics.ParseOverrides([]string{name + "=" + url})
			if err != nil {
				t.Fatal(err)
			}
			if q := WithQuotas(t.Context(), client, urls, view).Members[1].Status.EffectiveQuota(); q != 4*gib {
				t.Errorf("%s: %d at --metrics-url", name, q)
			}
		}
		client.Close() //nolint:errcheck // nothing was written
	}
}
