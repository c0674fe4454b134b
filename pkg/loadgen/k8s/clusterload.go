package k8s

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
)

// ClusterOptions are the knobs of k8s-cluster.
type ClusterOptions struct {
	Nodes       int
	PodsPerNode int     // that there are, beside those that come and go
	PodRate     float64 // pods created, and deleted, in a second; 0: Nodes/500, which Kubernetes' scalability group takes for usual
	Kinds       int     // resources that each API server caches, Events not among them
	Images      int     // that each Node lists
}

// DefaultClusterOptions are a cluster of a hundred nodes.
func DefaultClusterOptions() ClusterOptions {
	return ClusterOptions{Nodes: 100, PodsPerNode: 30, Kinds: 75, Images: DefaultHeartbeatOptions().Images}
}

// Cluster is the load of a whole cluster that does nothing special.
type Cluster struct {
	ClusterOptions
}

// Name is that of the command.
func (*Cluster) Name() string { return "k8s-cluster" }

// Params are the knobs.
func (c *Cluster) Params() map[string]any {
	return map[string]any{"nodes": c.Nodes, "pods_per_node": c.PodsPerNode, "pod_rate": c.podRate(), "kinds": c.Kinds, "images": c.Images}
}

// Figures are what can be measured of it. Whether lists are streams or pages depends on
// the members' version.
func (c *Cluster) Figures() result.Names {
	return c.heartbeats().Figures().With(c.pods().figures()).With(electionFigures()).With(apiServerFigures()).With(informerFigures())
}

// Check finds what is wrong with the knobs.
func (c *Cluster) Check() error {
	if c.Nodes < 1 || c.PodsPerNode < 0 || c.PodRate < 0 || c.Kinds < len(cachedKinds()) || c.Kinds > mostKinds {
		return badFlag(c, fmt.Sprintf("--nodes must be 1 or more, --pods-per-node and --pod-rate 0 or more, --kinds from %d to %d", len(cachedKinds()), mostKinds))
	}
	return c.heartbeats().Check()
}

func (c *Cluster) podRate() float64 {
	if c.PodRate > 0 {
		return c.PodRate
	}
	return float64(c.Nodes) / 500
}

// heartbeats are those of the nodes. One Node in ten is written before its five
// minutes are over, since something has changed.
func (c *Cluster) heartbeats() *Heartbeats {
	h := &Heartbeats{DefaultHeartbeatOptions()}
	h.Nodes, h.Images = c.Nodes, c.Images
	h.StatusPeriod = time.Duration(float64(h.StatusPeriod) / 1.1 / (1 + heartbeatJitter/2))
	return h
}

// kind is a resource that API servers cache: what its connection is called and
// where it is stored.
type kind struct{ resource, stored string }

// mostKinds is how many resources an API server may cache here, each by a connection and
// a watch of its own: Kubernetes has some 75, and some installations a thousand CRDs more.
const mostKinds = 5000

// cachedKinds are those in which there is something.
func cachedKinds() []kind {
	return []kind{{"pods", "pods"}, {"nodes", "minions"}, {"leases", "leases"}, {"endpoints", "services/endpoints"},
		{"endpointslices", "endpointslices"}, {"replicasets", "replicasets"}, {"deployments", "deployments"}}
}

// Setup makes nodes, pods and what belongs to them.
func (c *Cluster) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := c.Check(); err != nil {
		return loadgen.Cast{}, err
	}
	cast, err := c.heartbeats().Setup(ctx, env)
	if err != nil {
		return cast, err
	}
	if n := c.Nodes * c.PodsPerNode; n > 0 {
		if _, err := makePods(ctx, env, env.Prefix+"/pods/", n, max(1, n/100)); err != nil {
			return cast, err
		}
	}
	for _, more := range []func(context.Context, *loadgen.Env) ([]loadgen.Actor, error){c.pods().actors, elections} {
		actors, err := more(ctx, env)
		if err != nil {
			return cast, err
		}
		cast.Actors = append(cast.Actors, actors...)
	}
	cast.Expected = c.mix(env.APIServers())
	kinds := cachedKinds()
	for i := len(kinds); i < c.Kinds; i++ {
		kinds = append(kinds, kind{kindName(i), kindName(i)})
	}
	for i := range env.APIServers() {
		a := newAPIServer(env, i)
		cast.Actors = append(cast.Actors, a.actors()...)
		for _, k := range kinds {
			cache := newInformer(env, i, k.resource, env.Prefix+"/"+k.stored+"/")
			cast.Background = append(cast.Background, loadgen.Beside{APIServer: i, Run: cache.run})
			cast.Actors = append(cast.Actors, a.cacheActors(cache)...)
		}
	}
	return cast, nil
}

// pods are those that come and go. There are sixteen at least, of all sizes of
// Services, which live the longer the fewer are made.
func (c *Cluster) pods() PodOptions {
	const slots = 16
	o := DefaultPodOptions()
	o.Rate, o.Nodes = c.podRate(), c.Nodes
	o.Step = max(o.Step, time.Duration(slots/(o.Rate*lifeSteps)*float64(time.Second)))
	return o
}
