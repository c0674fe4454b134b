package k8s

import (
	"context"
	"fmt"
	"maps"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// WithCompaction has the API servers of a scenario compact the history as
// kube-apiserver does: each tries every interval, and one of them wins and
// compacts to where the round before was. 0: nobody compacts.
func WithCompaction(s loadgen.Scenario, interval time.Duration) loadgen.Scenario {
	return &compacted{Scenario: s, interval: interval}
}

// compactor is whose connection it is.
const compactor = "compactor"

type compacted struct {
	loadgen.Scenario
	interval time.Duration
}

// Params are those of the scenario, and the interval.
func (c *compacted) Params() map[string]any {
	p := maps.Clone(c.Scenario.Params())
	p["compaction_seconds"] = c.interval.Seconds()
	return p
}

// Figures are those of the scenario, and of the compactors.
func (c *compacted) Figures() result.Names {
	if c.interval <= 0 {
		return c.Scenario.Figures()
	}
	return c.Scenario.Figures().With(sends("txn", compactor)).With(sends("compact", compactor))
}

// Setup adds the API servers' compactors to the cast.
func (c *compacted) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	cast, err := c.Scenario.Setup(ctx, env)
	if err != nil || c.interval <= 0 {
		return cast, err
	}
	for i := range env.APIServers() {
		one := &shape.Compactor{Key: loadgen.Root + shape.CompactKey}
		cast.Actors = append(cast.Actors, loadgen.Actor{
			Name: fmt.Sprintf("compactor/%d", i), APIServer: i, Schedule: loadgen.Schedule{Period: c.interval},
			Act: func(ctx context.Context, t *loadgen.Turn) { compact(ctx, t, one) },
		})
	}
	return cast, nil
}

// compact takes part in one round.
func compact(ctx context.Context, t *loadgen.Turn, one *shape.Compactor) {
	resp, err := t.Txn(ctx, compactor, one.Claim())
	if err != nil {
		return
	}
	if revision := one.Answered(resp); revision > 0 {
		_ = t.Do(ctx, "compact", compactor, func(ctx context.Context, c *clientv3.Client) (loadgen.Reply, error) {
			_, err := c.Compact(ctx, revision)
			return loadgen.Reply{}, err
		})
	}
}
