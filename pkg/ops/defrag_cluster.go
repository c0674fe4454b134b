package ops

import (
	"context"
	"net/http"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/metrics"
)

// defragCluster is what a defragmentation asks of a cluster. Tests have one that
// plays back what was recorded.
type defragCluster interface {
	View(ctx context.Context) (cluster.View, error)
	Status(ctx context.Context, id uint64) (cluster.Status, error)
	Defragment(ctx context.Context, id uint64) error
	MoveLeader(ctx context.Context, from, to uint64) error
	Metrics(ctx context.Context, m cluster.Member) (*metrics.Sample, error)
}

// liveCluster is the real one.
type liveCluster struct {
	client *cluster.Client
	http   *http.Client
	urls   metrics.Overrides
}

func (l *liveCluster) View(ctx context.Context) (cluster.View, error) {
	return l.client.VotersView(ctx)
}

func (l *liveCluster) Status(ctx context.Context, id uint64) (cluster.Status, error) {
	m, err := l.client.Member(id)
	if err != nil {
		return cluster.Status{}, err
	}
	return m.Status(ctx)
}

func (l *liveCluster) Defragment(ctx context.Context, id uint64) error {
	m, err := l.client.Member(id)
	if err != nil {
		return err
	}
	return m.Defragment(ctx)
}

func (l *liveCluster) MoveLeader(ctx context.Context, from, to uint64) error {
	m, err := l.client.Member(from)
	if err != nil {
		return err
	}
	return m.MoveLeader(ctx, to)
}

func (l *liveCluster) Metrics(ctx context.Context, m cluster.Member) (*metrics.Sample, error) {
	return metrics.FetchOf(ctx, l.http, l.urls.For(m.Name, cluster.FormatID(m.ID), m.Endpoint), m.ID)
}
