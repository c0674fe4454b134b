package ops

import (
	"context"
	"sync"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
)

// quotaUnread says why a quota is not known.
const quotaUnread = "tells its quota by its metrics only (from 3.6 on by its status), and these cannot be read"

// WithQuotas returns the view with the quotas of members whose status does not tell
// theirs, as that of etcd before 3.6 does not, by what their metrics tell: every version
// from 3.4 on sets etcd_server_quota_backend_bytes when it begins to serve (NewBackendQuota
// in server/etcdserver/quota.go or server/storage/quota.go). Only such members are asked,
// all in parallel, for MemberTimeout at most. Of those whose metrics cannot be read it
// stays unknown.
func WithQuotas(ctx context.Context, client *cluster.Client, urls metrics.Overrides, view cluster.View) cluster.View {
	http := client.HTTPClient()
	defer http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, client.Config().MemberTimeout)
	defer cancel()
	live := liveCluster{client: client, urls: urls, http: http}
	told := cluster.View{Members: make([]cluster.Member, len(view.Members))}
	var wg sync.WaitGroup
	for i, m := range view.Members {
		if m.Status == nil || m.Status.EffectiveQuota() != cluster.QuotaUnknown {
			continue
		}
		wg.Go(func() {
			s, err := live.Metrics(ctx, m)
			if err != nil {
				return
			}
			if q, ok := s.Value(metrics.QuotaBytes, nil); ok && q != 0 { // which it is for a moment, as the server starts
				told.Members[i] = cluster.Member{ID: m.ID, Status: &cluster.Status{Quota: int64(q), QuotaKnown: true}}
			}
		})
	}
	wg.Wait()
	return view.QuotasLike(told)
}
