package k8s

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
	"kvd/pkg/ops/fault"
)

// ListOptions are the knobs of k8s-list.
type ListOptions struct {
	Objects      int           // pods that there are
	Namespaces   int           // that they are spread over
	Clients      int           // that list all of them
	Period       time.Duration // from one list of a client to its next
	PageSize     int64         // objects of an answer, 0: all in one
	Stream       bool          // each answer as a RangeStream
	Serializable bool          // from the member's own state
	FromCache    bool          // from the API server's cache: a probe of the revision, and word of progress
	ClientQPS    float64       // requests of one client in a second at most, 0: no limit
	Nodes        int           // whose heartbeats are the foreground
}

// DefaultListOptions are a client on each of five nodes that reads all pods in one
// answer every ten seconds.
func DefaultListOptions() ListOptions {
	return ListOptions{Objects: 5000, Namespaces: 10, Clients: 5, Period: 10 * time.Second, Nodes: 100}
}

// List is the load of clients that read all objects of a resource, beside
// kubelets that want to be heard.
type List struct {
	ListOptions
}

// Name is that of the command.
func (*List) Name() string { return "k8s-list" }

// Params are the knobs.
func (l *List) Params() map[string]any {
	return map[string]any{"objects": l.Objects, "namespaces": l.Namespaces, "clients": l.Clients, "period_seconds": l.Period.Seconds(),
		"page_size": l.PageSize, "stream": l.Stream, "serializable": l.Serializable, "from_cache": l.FromCache,
		"client_qps": l.ClientQPS, "nodes": l.Nodes}
}

// Figures are what can be measured of it.
func (l *List) Figures() result.Names {
	out := l.how().figures("pods")
	if l.FromCache {
		out = sends("range", "pods").With(sends("list", "pods")).With(informerFigures()).With(counts("progress_requests"))
	}
	return out.With(foregroundFigures(l.Nodes))
}

// how is how objects are read, not from the cache.
func (l *List) how() listing {
	return listing{page: l.PageSize, stream: l.Stream, serializable: l.Serializable}
}

// Check finds what is wrong with the knobs.
func (l *List) Check() error {
	switch {
	case l.Objects < 1 || l.Namespaces < 1 || l.Clients < 1 || l.Nodes < 0:
		return badFlag(l, "--objects, --namespaces and --clients must be 1 or more, --nodes 0 or more")
	case l.Period <= 0:
		return badFlag(l, "--period must be more than 0")
	case l.PageSize < 0 || l.ClientQPS < 0:
		return badFlag(l, "--page-size and --client-qps can't be negative")
	case l.FromCache && (l.Stream || l.Serializable || l.PageSize > 0):
		return badFlag(l, "--from-cache reads no objects from etcd: --stream, --serializable and --page-size say how to")
	}
	return nil
}

// badFlag is a usage error of a scenario.
func badFlag(s loadgen.Scenario, msg string) error {
	return &fault.Error{Kind: fault.Usage, Cause: "flag", Op: "loadgen", Subject: s.Name(), Msg: msg}
}

// Setup makes the pods that are not there yet.
func (l *List) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := l.Check(); err != nil {
		return loadgen.Cast{}, err
	}
	if l.Stream {
		if err := needStreams(env, l); err != nil {
			return loadgen.Cast{}, err
		}
	}
	prefix := env.Prefix + "/pods/"
	if _, err := makePods(ctx, env, prefix, l.Objects, l.Namespaces); err != nil {
		return loadgen.Cast{}, err
	}
	cast, err := foreground(ctx, env, l.Nodes)
	if err != nil {
		return cast, err
	}
	how := l.how()
	if l.ClientQPS > 0 {
		how.spacing = env.Scaled(time.Duration(float64(time.Second) / l.ClientQPS))
	}
	act := func(int) func(context.Context, *loadgen.Turn) {
		return func(ctx context.Context, t *loadgen.Turn) {
			_, _ = how.run(ctx, t, "pods", prefix) // recorded
		}
	}
	if l.FromCache {
		caches := make([]*informer, env.APIServers())
		for i := range caches {
			caches[i] = newInformer(env, i, "pods", prefix)
			cast.Background = append(cast.Background, loadgen.Beside{APIServer: i, Run: caches[i].run})
		}
		act = func(client int) func(context.Context, *loadgen.Turn) {
			cache := caches[client%len(caches)]
			return cache.list
		}
	}
	for i := range l.Clients {
		cast.Actors = append(cast.Actors, loadgen.Actor{Name: fmt.Sprintf("lister/%d", i), APIServer: i,
			Schedule: loadgen.Schedule{Period: l.Period, Jitter: 0.1, Sliding: true}, Act: act(i)})
	}
	return cast, nil
}

// list is a consistent list out of the cache: what costs etcd is to ask for the
// revision that the cache must have reached.
func (i *informer) list(ctx context.Context, t *loadgen.Turn) {
	now, err := t.Get(ctx, i.resource, i.probe())
	if err != nil {
		return
	}
	outcome := result.OK
	if err := i.wait(ctx, now.Header.Revision); err != nil {
		outcome = result.Unfinished
	}
	t.Observe("list", i.resource, outcome, 0)
}

// makePods makes so many running pods, spread over namespaces, that are not there
// yet.
func makePods(ctx context.Context, env *loadgen.Env, prefix string, n, namespaces int) ([]*object, error) {
	pods, running := make([]*object, n), shape.Pods()[shape.Running]
	for i := range pods {
		id := podID(i, namespaces)
		pods[i] = &object{key: prefix + shape.NamespaceName(id.Namespace) + "/" + shape.PodName(id.App, id.Object)}
	}
	return pods, seed(ctx, env, "pods", prefix, "making pods", pods, func(i int) string { return running.Value(podID(i, namespaces), time.Now()) })
}

// podID is that of the i-th pod: fifty are of one application, thirty on one node.
func podID(i, namespaces int) shape.ID {
	return shape.ID{App: i / 50, Object: i, Node: i / 30, Namespace: i % namespaces, Born: time.Now()}
}

// foreground are kubelets that say that their nodes live, which is what a load
// must not disturb.
func foreground(ctx context.Context, env *loadgen.Env, nodes int) (loadgen.Cast, error) {
	if nodes == 0 {
		return loadgen.Cast{}, nil
	}
	h := &Heartbeats{DefaultHeartbeatOptions()}
	h.Nodes = nodes
	return h.Setup(ctx, env)
}
