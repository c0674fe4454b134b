package k8s

import (
	"context"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/shape"
)

// lifeSteps is how many turns of its slot a pod lives.
const lifeSteps = 8

// podSlot has one pod after the other live in it, from creation to deletion. What
// is written is what controllers, scheduler and kubelet write for a Deployment's
// pod; the counts of table 2.2 of the model are beside it:
//
//	step        pods            read first          Events  also
//	0 created   create                                      ReplicaSet
//	1 bound     update                              1
//	2 creating  update          by the kubelet      2
//	3 running   update          by the kubelet      2       half: Deployment; endpoints
//	4 ready     update          by the kubelet
//	5 deleted   update          by the API server   1       endpoints
//	6 ended     update          by the kubelet      1
//	7 gone      delete          by the API server,  half    half: endpoints
//	                            half: the kubelet
//
// Half of the slots belong to a Service. It belongs to one actor.
type podSlot struct {
	o         PodOptions
	number    int
	first     int // of the pods' numbers: another one in each run, so that what is left of an earlier one is not in the way
	templates []*shape.Template
	prefixes  podPrefixes

	pod        object
	id         shape.ID
	lives      int
	events     *eventSource
	replicaSet object
	deployment object
	endpoints  []*serviceSet
	slices     []*serviceSet
	written    [2]*shape.Template // ReplicaSet, Deployment
}

// podPrefixes are where the objects are.
type podPrefixes struct{ pods, replicaSets, deployments, endpoints, slices string }

func podPrefixesOf(prefix string) podPrefixes {
	return podPrefixes{pods: prefix + "/pods/", replicaSets: prefix + "/replicasets/", deployments: prefix + "/deployments/",
		endpoints: prefix + "/services/endpoints/", slices: prefix + "/endpointslices/"}
}

// step is one turn of the slot. Slots are not in step with each other, and those
// that would begin in the middle of a life wait for the next.
func (s *podSlot) step(ctx context.Context, t *loadgen.Turn) {
	step := (t.N - 1 + int64(s.number/2)) % lifeSteps
	if s.lives == 0 && step != 0 {
		return
	}
	switch step {
	case 0:
		s.begin(ctx, t)
	case 1:
		s.write(ctx, t, shape.Bound)
		s.emit(ctx, t, 1)
	case 2:
		if !s.o.StatusMerge {
			s.report(ctx, t, shape.Creating)
		}
		s.emit(ctx, t, 2)
	case 3:
		s.report(ctx, t, shape.Running)
		s.emit(ctx, t, 2)
		if s.even() {
			s.update(ctx, t, &s.deployment, "deployments", s.written[1])
		}
		s.serve(ctx, t)
	case 4:
		if !s.o.StatusMerge {
			s.report(ctx, t, shape.Running)
		}
	case 5:
		s.pod.read(ctx, t, "pods")
		s.write(ctx, t, shape.Terminating)
		s.emit(ctx, t, 1)
		s.serve(ctx, t)
	case 6:
		s.report(ctx, t, shape.Terminated)
		s.emit(ctx, t, 1)
	default:
		s.end(ctx, t)
	}
}

// even tells every other pod from the rest, for what happens to half of them.
func (s *podSlot) even() bool { return (s.lives+s.number/2)%2 == 0 }

// begin creates the slot's next pod.
func (s *podSlot) begin(ctx context.Context, t *loadgen.Turn) {
	s.lives++
	s.id.Object, s.id.Born = s.first+s.number+s.lives*s.o.slots(), time.Now()
	s.id.Node = s.id.Object % max(s.o.Nodes, 1)
	s.pod = object{key: s.prefixes.pods + shape.NamespaceName(s.id.Namespace) + "/" + shape.PodName(s.id.App, s.id.Object)}
	s.pod.create(ctx, t, "pods", s.templates[shape.Created].Value(s.id, time.Now()), 0)
	s.update(ctx, t, &s.replicaSet, "replicasets", s.written[0])
}

// end deletes it for good.
func (s *podSlot) end(ctx context.Context, t *loadgen.Turn) {
	s.pod.remove(ctx, t, "pods")
	if s.even() {
		s.emit(ctx, t, 1)
		s.serve(ctx, t)
		return
	}
	s.pod.read(ctx, t, "pods") // the kubelet, which finds nothing
}

// report writes what a kubelet sees of the pod, which reads it first, and not from
// the API server's cache (kubelet/status/status_manager.go).
func (s *podSlot) report(ctx context.Context, t *loadgen.Turn, stage shape.Stage) {
	if !s.o.ReadCache {
		s.pod.read(ctx, t, "pods")
	}
	s.write(ctx, t, stage)
}

func (s *podSlot) write(ctx context.Context, t *loadgen.Turn, stage shape.Stage) {
	s.update(ctx, t, &s.pod, "pods", s.templates[stage])
}

func (s *podSlot) update(ctx context.Context, t *loadgen.Turn, o *object, resource string, as *shape.Template) {
	o.update(ctx, t, resource, as.Value(s.id, time.Now()), 0)
}

func (s *podSlot) emit(ctx context.Context, t *loadgen.Turn, n int) {
	for range n {
		s.events.emit(ctx, t, s.id)
	}
}

// serve writes the pod's change into its Service's endpoints, of both kinds: the
// controller of Endpoints still runs.
func (s *podSlot) serve(ctx context.Context, t *loadgen.Turn) {
	for _, kind := range []struct {
		resource string
		sets     []*serviceSet
	}{{"endpoints", s.endpoints}, {"endpointslices", s.slices}} {
		if len(kind.sets) == 0 {
			continue
		}
		one := kind.sets[s.lives%len(kind.sets)]
		one.set.Replace(s.lives%one.set.Len(), s.id.Object)
		one.update(ctx, t, kind.resource, one.set.Value(time.Now()), 0)
	}
}
