package k8s

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// How a Service's endpoints are kept.
const (
	ModeEndpoints = "endpoints" // one object that lists all
	ModeSlices    = "slices"    // EndpointSlices of a hundred
)

// writesPerPod is how often a pod that is replaced changes its Service's
// endpoints: the new one becomes ready, the old one ends, and sometimes both are
// seen at once.
const writesPerPod = 2.5

// EndpointOptions are the knobs of k8s-endpoints.
type EndpointOptions struct {
	Endpoints int           // pods of the Service
	Mode      string        // ModeEndpoints or ModeSlices
	PodRate   float64       // pods replaced in a second
	Batch     time.Duration // for which the controller collects changes, 0: not at all
	Watchers  int           // of the objects, by each API server
	Nodes     int           // whose heartbeats are the foreground
}

// DefaultEndpointOptions are a Service of 1000 pods, twenty of which are replaced
// in a second: a rolling update.
func DefaultEndpointOptions() EndpointOptions {
	return EndpointOptions{Endpoints: 1000, Mode: ModeEndpoints, PodRate: 20, Watchers: 1, Nodes: 100}
}

// Endpoints is the load of a controller that keeps the endpoints of a Service up
// to date while its pods are replaced.
type Endpoints struct {
	EndpointOptions
}

// Name is that of the command.
func (*Endpoints) Name() string { return "k8s-endpoints" }

// Params are the knobs.
func (e *Endpoints) Params() map[string]any {
	return map[string]any{"pods": e.EndpointOptions.Endpoints, "mode": e.Mode, "pod_rate": e.PodRate,
		"batch_seconds": e.Batch.Seconds(), "watchers": e.Watchers, "nodes": e.Nodes}
}

// Figures are what can be measured of it.
func (e *Endpoints) Figures() result.Names {
	out := sends("txn", e.resource()).With(foregroundFigures(e.Nodes))
	if e.Watchers > 0 {
		out = out.With(informerFigures())
	}
	return out
}

// resource is what the endpoints are kept as.
func (e *Endpoints) resource() string {
	if e.Mode == ModeSlices {
		return "endpointslices"
	}
	return "endpoints"
}

// Check finds what is wrong with the knobs.
func (e *Endpoints) Check() error {
	switch {
	case e.Mode != ModeEndpoints && e.Mode != ModeSlices:
		return badFlag(e, fmt.Sprintf("--mode %q: want %s or %s", e.Mode, ModeEndpoints, ModeSlices))
	case e.EndpointOptions.Endpoints < 1 || e.Mode == ModeEndpoints && e.EndpointOptions.Endpoints > shape.MaxEndpoints:
		return badFlag(e, fmt.Sprintf("--pods must be 1 or more, and %d at most in one Endpoints object", shape.MaxEndpoints))
	case e.PodRate <= 0 || e.Batch < 0 || e.Watchers < 0 || e.Nodes < 0:
		return badFlag(e, "--pod-rate must be more than 0; --batch, --watchers and --nodes can't be negative")
	}
	return nil
}

// serviceSet is one of a Service's objects.
type serviceSet struct {
	object

	set *shape.Set
}

// Setup makes the objects.
func (e *Endpoints) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := e.Check(); err != nil {
		return loadgen.Cast{}, err
	}
	cast, err := foreground(ctx, env, e.Nodes)
	if err != nil {
		return cast, err
	}
	resource, prefix := e.resource(), env.Prefix+"/services/endpoints/"
	if e.Mode == ModeSlices {
		prefix = env.Prefix + "/endpointslices/"
	}
	sets := setsOf(shape.ID{Born: time.Now()}, prefix, e.Mode == ModeSlices, e.EndpointOptions.Endpoints)
	objects := make([]*object, len(sets))
	for i, s := range sets {
		objects[i] = &s.object
	}
	err = seed(ctx, env, resource, prefix, "making endpoints", objects, func(i int) string { return sets[i].set.Value(time.Now()) })
	if err != nil {
		return cast, err
	}
	for i := range env.APIServers() * e.Watchers {
		cast.Background = append(cast.Background, loadgen.Beside{APIServer: i, Run: newInformer(env, i, resource, prefix).run})
	}
	c := &endpointController{resource: resource, sets: sets, pods: e.EndpointOptions.Endpoints, perTurn: 1 / writesPerPod}
	period := time.Duration(float64(time.Second) / e.PodRate / writesPerPod)
	if e.Batch > 0 {
		period, c.perTurn = e.Batch, e.PodRate*e.Batch.Seconds()
	}
	cast.Actors = append(cast.Actors, loadgen.Actor{Name: "endpoint-controller", Schedule: loadgen.Schedule{Period: period}, Act: c.act})
	return cast, nil
}

// setsOf returns the objects of a Service with n pods: one that lists them all, or
// slices, of which none has more than a hundred.
func setsOf(id shape.ID, prefix string, slices bool, n int) []*serviceSet {
	within := prefix + shape.NamespaceName(id.Namespace) + "/"
	if !slices {
		return []*serviceSet{{object{key: within + shape.AppName(id.App)}, shape.Endpoints(id, n)}}
	}
	var sets []*serviceSet
	for at := 0; at < n; at += shape.MaxSlice {
		id.Object = at / shape.MaxSlice
		sets = append(sets, &serviceSet{object{key: within + shape.SliceName(id.App, id.Object)}, shape.Slice(id, min(n-at, shape.MaxSlice))})
	}
	return sets
}

// endpointController writes the objects in which a pod has changed. It is one
// worker, as Kubernetes has one at a time for each Service.
type endpointController struct {
	resource string
	sets     []*serviceSet
	pods     int
	perTurn  float64 // pods replaced in a turn
	replaced float64
	seen     int // pods replaced so far
}

func (c *endpointController) act(ctx context.Context, t *loadgen.Turn) {
	c.replaced += c.perTurn
	dirty := map[int]bool{}
	for c.seen < int(c.replaced) {
		dirty[c.replace()] = true
	}
	if len(dirty) == 0 { // the same pod again: it is ready, or it ends
		dirty[c.at(max(c.seen-1, 0))] = true
	}
	for i, s := range c.sets {
		if dirty[i] {
			s.update(ctx, t, c.resource, s.set.Value(time.Now()), 0)
		}
	}
}

// at returns which object has the place of the n-th replaced pod. Pods are
// replaced all over the Service, not slice by slice.
func (c *endpointController) at(n int) int { return n % c.pods % len(c.sets) }

func (c *endpointController) replace() int {
	i := c.at(c.seen)
	s := c.sets[i]
	s.set.Replace(c.seen/len(c.sets)%s.set.Len(), c.pods+c.seen)
	c.seen++
	return i
}
