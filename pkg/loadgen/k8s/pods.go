package k8s

import (
	"context"
	"fmt"
	"math"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// PodOptions are the knobs of k8s-pods.
type PodOptions struct {
	Rate        float64       // pods created, and deleted, in a second
	Step        time.Duration // from one step of a pod's life to the next, of eight
	Nodes       int           // that they run on, and whose heartbeats are the foreground
	StatusMerge bool          // the kubelet writes one status in place of three
	ReadCache   bool          // the kubelet does not read a pod from etcd before it writes its status
}

// DefaultPodOptions are ten pods a second.
func DefaultPodOptions() PodOptions {
	return PodOptions{Rate: 10, Step: time.Second, Nodes: 100}
}

// Pods is the load of pods that come and go.
type Pods struct {
	PodOptions
}

// Name is that of the command.
func (*Pods) Name() string { return "k8s-pods" }

// Params are the knobs.
func (p *Pods) Params() map[string]any {
	return map[string]any{"rate": p.Rate, "step_seconds": p.Step.Seconds(), "nodes": p.Nodes, "status_merge": p.StatusMerge, "read_cache": p.ReadCache}
}

// Figures are what can be measured of it.
func (p *Pods) Figures() result.Names { return p.figures().With(foregroundFigures(p.Nodes)) }

// Check finds what is wrong with the knobs.
func (p *Pods) Check() error {
	if p.Rate <= 0 || p.Step <= 0 || p.Nodes < 0 {
		return badFlag(p, "--rate and --step must be more than 0, --nodes 0 or more")
	}
	if p.Rate*p.Step.Seconds()*lifeSteps > maxSlots {
		return badFlag(p, fmt.Sprintf("%g pods a second that live for %d steps of %s are more than %d at a time: lower --rate or --step", p.Rate, lifeSteps, p.Step, maxSlots))
	}
	return nil
}

// maxSlots is how many pods can live at a time; each is remembered.
const maxSlots = 1_000_000

// slots is how many pods live at a time. Their number is even, so that half of
// them belong to a Service.
func (o PodOptions) slots() int {
	return max(2, 2*int(math.Round(o.Rate*o.Step.Seconds()*lifeSteps/2)))
}

// Setup makes the Deployments, ReplicaSets and Services of the pods.
func (p *Pods) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := p.Check(); err != nil {
		return loadgen.Cast{}, err
	}
	cast, err := foreground(ctx, env, p.Nodes)
	if err != nil {
		return cast, err
	}
	actors, err := p.actors(ctx, env)
	cast.Actors = append(cast.Actors, actors...)
	return cast, err
}

// actors are the slots, each of which has one pod after the other.
func (o PodOptions) actors(ctx context.Context, env *loadgen.Env) ([]loadgen.Actor, error) {
	slots := make([]*podSlot, o.slots())
	leases := (&Events{DefaultEventOptions()}).leases(env)
	templates := shape.Pods()
	written := [2]*shape.Template{shape.ReplicaSet(), shape.Deployment()}
	first := int(time.Now().UnixMilli() % 10_000_000)
	for i := range slots {
		slots[i] = &podSlot{o: o, number: i, first: first, templates: templates, prefixes: podPrefixesOf(env.Prefix), written: written,
			events: newEventSource(env, i, leases[i%len(leases)])}
		slots[i].place()
	}
	if err := seedSlots(ctx, env, slots); err != nil {
		return nil, err
	}
	// The schedule of as many slots as there are gives the rate that was asked for.
	step := time.Duration(float64(len(slots)) / (o.Rate * lifeSteps) * float64(time.Second))
	actors := make([]loadgen.Actor, len(slots))
	for i, s := range slots {
		actors[i] = loadgen.Actor{Name: fmt.Sprintf("pod-slot/%d", i), APIServer: i, Schedule: loadgen.Schedule{Period: step}, Act: s.step}
	}
	return actors, nil
}

// figures are what can be measured of the slots.
func (o PodOptions) figures() result.Names {
	return sends("txn", "pods", "replicasets", "deployments", "endpoints", "endpointslices").With(sends("range", "pods")).With(eventFigures())
}

// serviceSizes are how many pods Services have, in which half, a quarter and a
// quarter of the pods are (clusterloader2's load test).
func serviceSize(i int) int { return [...]int{5, 5, 30, 250}[i%4] }

// place gives the slot its application, namespace and objects. Every other one has
// a Service.
func (s *podSlot) place() {
	s.id = shape.ID{App: s.number, Namespace: s.number / 50, Born: time.Now()}
	within := shape.NamespaceName(s.id.Namespace) + "/" + shape.AppName(s.id.App)
	s.replicaSet.key = s.prefixes.replicaSets + within + "-67cc84df8d"
	s.deployment.key = s.prefixes.deployments + within
	if s.number%2 == 0 {
		n := serviceSize(s.number / 2)
		s.endpoints = setsOf(s.id, s.prefixes.endpoints, false, n)
		s.slices = setsOf(s.id, s.prefixes.slices, true, n)
	}
}

// seedSlots makes the objects that live longer than a pod.
func seedSlots(ctx context.Context, env *loadgen.Env, slots []*podSlot) error {
	p := podPrefixesOf(env.Prefix)
	for _, kind := range []struct {
		resource, prefix string
		of               func(s *podSlot) (objects []*object, values []func() string)
	}{
		{"replicasets", p.replicaSets, func(s *podSlot) ([]*object, []func() string) {
			return []*object{&s.replicaSet}, []func() string{func() string { return s.written[0].Value(s.id, time.Now()) }}
		}},
		{"deployments", p.deployments, func(s *podSlot) ([]*object, []func() string) {
			return []*object{&s.deployment}, []func() string{func() string { return s.written[1].Value(s.id, time.Now()) }}
		}},
		{"endpoints", p.endpoints, func(s *podSlot) ([]*object, []func() string) { return valuesOf(s.endpoints) }},
		{"endpointslices", p.slices, func(s *podSlot) ([]*object, []func() string) { return valuesOf(s.slices) }},
	} {
		var objects []*object
		var values []func() string
		for _, s := range slots {
			o, v := kind.of(s)
			objects, values = append(objects, o...), append(values, v...)
		}
		err := seed(ctx, env, kind.resource, kind.prefix, "making "+kind.resource, objects, func(i int) string { return values[i]() })
		if err != nil {
			return err
		}
	}
	return nil
}

func valuesOf(sets []*serviceSet) (objects []*object, values []func() string) {
	for _, s := range sets {
		objects = append(objects, &s.object)
		values = append(values, func() string { return s.set.Value(time.Now()) })
	}
	return objects, values
}
