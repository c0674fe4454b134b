package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// sizes are those of the values, in the shape of a Kubernetes registry: many
// small objects (Leases, Events), some pods, few big ones.
var sizes = []struct {
	share float64
	bytes int
}{{0.5, 600}, {0.85, 2500}, {0.98, 8000}, {1, 30000}}

func valueSize(rng *rand.Rand) int {
	x := rng.Float64()
	for _, s := range sizes {
		if x < s.share {
			return s.bytes/2 + rng.IntN(s.bytes)
		}
	}
	return sizes[0].bytes
}

// fill writes keys until the file has the size, deletes those that do not stay,
// compacts, and so leaves the free pages that a defragmentation gives back.
func fill(ctx context.Context, g *group, o options) (dataset, error) {
	c, err := clientv3.New(clientv3.Config{Logger: zap.NewNop(), Endpoints: g.endpoints})
	if err != nil {
		return dataset{}, err
	}
	defer c.Close()
	var written atomic.Int64
	var keys atomic.Int64
	err = inParallel(16, func(w int) error {
		rng := rand.New(rand.NewPCG(o.Seed, uint64(w)))
		for written.Load() < int64(o.SizeMiB)<<20 && ctx.Err() == nil {
			v := make([]byte, valueSize(rng))
			for i := range v {
				v[i] = byte(rng.Uint32())
			}
			if _, err := c.Put(ctx, key(int(keys.Add(1))), string(v)); err != nil {
				return err
			}
			written.Add(int64(len(v)))
		}
		return ctx.Err()
	})
	if err != nil {
		return dataset{}, err
	}
	n := int(keys.Load())
	logf("wrote %d keys, %d MiB; deleting %.0f %% of them", n, written.Load()>>20, 100*(1-o.Live))
	var next atomic.Int64
	err = inParallel(16, func(int) error {
		for ctx.Err() == nil {
			k := int(next.Add(1))
			if k > n {
				return nil
			}
			if rand.New(rand.NewPCG(o.Seed, uint64(k))).Float64() < o.Live {
				continue
			}
			if _, err := c.Delete(ctx, key(k)); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return dataset{}, err
	}
	r, err := c.Get(ctx, "ready")
	if err != nil {
		return dataset{}, err
	}
	if _, err := c.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return dataset{}, err
	}
	if _, err := c.Put(ctx, "ready", "compacted"); err != nil {
		return dataset{}, err
	}
	d := dataset{Keys: n}
	for _, ep := range g.endpoints {
		st, err := c.Status(ctx, ep)
		if err != nil {
			return d, err
		}
		logf("%s: %d MiB, in use %d MiB", ep, st.DbSize>>20, st.DbSizeInUse>>20)
		d.SizeBytes, d.InUseBytes = max(d.SizeBytes, st.DbSize), max(d.InUseBytes, st.DbSizeInUse)
	}
	return d, nil
}

func key(i int) string { return fmt.Sprintf("/registry/things/namespace-%02d/name-%08d", i%37, i) }

func inParallel(n int, work func(int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for w := range n {
		wg.Go(func() { errs <- work(w) })
	}
	wg.Wait()
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}
