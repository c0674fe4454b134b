package k8s

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// eventJitter is what the time from an Event to the next of its source is longer by
// at most, as a share: they come when they come.
const eventJitter = 0.5

// EventOptions are the knobs of k8s-events.
type EventOptions struct {
	Rate          float64       // Events a second, of all nodes together
	Repeats       float64       // share of them that repeat an earlier one
	Sources       int           // kubelets that make them
	TTL           time.Duration // that each lives
	Reuse         time.Duration // that a lease is given out again
	LeaseObjects  int           // Events that one lease is given to
	LeasePerEvent bool          // each has its own, as before leases were given out again
	Readers       int           // clients that watch Events, which no API server caches
	Nodes         int           // whose heartbeats are the foreground
}

// DefaultEventOptions are kube-apiserver's own, and fifty Events a second.
func DefaultEventOptions() EventOptions {
	return EventOptions{Rate: 50, Repeats: 0.2, Sources: 100, TTL: shape.EventTTL * time.Second, Reuse: shape.LeaseReuse * time.Second,
		LeaseObjects: shape.LeaseObjects, Readers: 1, Nodes: 100}
}

// Events is the load of Events that are written, repeated and expire.
type Events struct {
	EventOptions
}

// Name is that of the command.
func (*Events) Name() string { return "k8s-events" }

// Params are the knobs.
func (e *Events) Params() map[string]any {
	return map[string]any{"rate": e.Rate, "repeats": e.Repeats, "sources": e.Sources, "ttl_seconds": e.TTL.Seconds(),
		"reuse_seconds": e.Reuse.Seconds(), "lease_objects": e.LeaseObjects, "lease_per_event": e.LeasePerEvent,
		"readers": e.Readers, "nodes": e.Nodes}
}

// Figures are what can be measured of it.
func (e *Events) Figures() result.Names {
	out := eventFigures()
	if e.Repeats > 0 {
		out = out.With(sends("range", "events"))
	}
	if e.Readers > 0 {
		out = out.With(informerFigures())
	}
	return out.With(foregroundFigures(e.Nodes))
}

// Check finds what is wrong with the knobs.
func (e *Events) Check() error {
	switch {
	case e.Rate <= 0 || e.Sources < 1:
		return badFlag(e, "--rate must be more than 0, --sources 1 or more")
	case e.Repeats < 0 || e.Repeats >= 1:
		return badFlag(e, "--repeats-share is a share, from 0 to less than 1")
	case e.TTL < time.Second || e.Reuse < 0 || e.LeaseObjects < 1:
		return badFlag(e, "--ttl must be 1s or more, --reuse 0 or more, --lease-objects 1 or more")
	case e.Readers < 0 || e.Nodes < 0:
		return badFlag(e, "--readers and --nodes can't be negative")
	}
	return nil
}

// Setup makes one Event, so that who may not is told before the load begins.
// Those of an earlier run go by themselves.
func (e *Events) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := e.Check(); err != nil {
		return loadgen.Cast{}, err
	}
	cast, err := foreground(ctx, env, e.Nodes)
	if err != nil {
		return cast, err
	}
	if err := e.first(ctx, env); err != nil {
		return cast, err
	}
	for i := range e.Readers {
		cast.Background = append(cast.Background, loadgen.Beside{APIServer: i, Run: newInformer(env, i, "events", env.Prefix+"/events/").run})
	}
	leases := e.leases(env)
	period := time.Duration(float64(time.Second) * float64(e.Sources) / e.Rate / (1 + eventJitter/2))
	for i := range e.Sources {
		s := newEventSource(env, i, leases[i%len(leases)])
		s.repeats = e.Repeats
		cast.Actors = append(cast.Actors, loadgen.Actor{Name: fmt.Sprintf("event-source/%d", i), APIServer: i,
			Schedule: loadgen.Schedule{Period: period, Jitter: eventJitter}, Act: s.act})
	}
	return cast, nil
}

func (e *Events) first(ctx context.Context, env *loadgen.Env) error {
	id := shape.ID{Serial: time.Now().UnixNano(), Born: time.Now()}
	key := env.Prefix + "/events/" + shape.NamespaceName(0) + "/" + shape.PodName(0, 0) + "." + shape.EventSerial(id.Serial)
	var lease *clientv3.LeaseGrantResponse
	err := env.Prepare(ctx, 0, "events", key, func(ctx context.Context, c *clientv3.Client) (err error) {
		lease, err = c.Grant(ctx, env.ScaledTTL(int64(e.TTL.Seconds())))
		return err
	})
	if err == nil {
		_, err = env.Commit(ctx, 0, "events", key, shape.Create(key, shape.Event("started").Value(id, time.Now()), lease.ID))
	}
	return err
}

// leases returns what each API server gives out leases from.
func (e *Events) leases(env *loadgen.Env) []*shape.Leases {
	all := make([]*shape.Leases, env.APIServers())
	for i := range all {
		ttl, reuse, objects := env.ScaledTTL(int64(e.TTL.Seconds())), int64(env.Scaled(e.Reuse).Seconds()), e.LeaseObjects
		if e.LeasePerEvent {
			reuse, objects = 0, 1
		}
		all[i] = shape.NewLeases(ttl, reuse, objects)
	}
	return all
}

// eventSource is one that makes Events: a kubelet, a controller. It belongs to one
// actor.
type eventSource struct {
	prefix  string
	number  int
	leases  *shape.Leases
	repeats float64
	reasons []*shape.Template
	made    int
	last    madeEvent
}

// madeEvent is one that may be repeated.
type madeEvent struct {
	object

	template *shape.Template
	id       shape.ID
	count    int
}

func newEventSource(env *loadgen.Env, number int, leases *shape.Leases) *eventSource {
	return &eventSource{prefix: env.Prefix + "/events/", number: number, leases: leases,
		reasons: []*shape.Template{shape.Event("pulled"), shape.Event("started"), shape.Event("failedscheduling")}}
}

// act makes an Event, or repeats the last.
func (s *eventSource) act(ctx context.Context, t *loadgen.Turn) {
	if s.last.revision != 0 && t.Rand().Float64() < s.repeats {
		s.repeat(ctx, t)
		return
	}
	s.emit(ctx, t, shape.ID{App: s.number, Object: s.made, Node: s.number})
}

// emit writes a new Event about a pod.
func (s *eventSource) emit(ctx context.Context, t *loadgen.Turn, about shape.ID) {
	lease, err := s.lease(ctx, t)
	if err != nil {
		return
	}
	about.Born = time.Now()
	about.Serial = about.Born.UnixNano()
	s.last = madeEvent{id: about, count: 1, template: s.reasons[s.made%len(s.reasons)]}
	s.last.key = s.prefix + shape.NamespaceName(about.Namespace) + "/" + shape.PodName(about.App, about.Object) + "." + shape.EventSerial(about.Serial)
	s.made++
	s.last.create(ctx, t, "events", s.last.value(), lease)
}

func (e *madeEvent) value() string { return e.template.Counted(e.id, time.Now(), e.count) }

// repeat counts up the last Event, as client-go's patch does: the API server has
// no cache of Events, so it reads it first; its lease is the newest one then.
func (s *eventSource) repeat(ctx context.Context, t *loadgen.Turn) {
	lease, err := s.lease(ctx, t)
	if err != nil {
		return
	}
	s.last.read(ctx, t, "events")
	if s.last.revision == 0 {
		return // it has expired
	}
	s.last.count++
	s.last.update(ctx, t, "events", s.last.value(), lease)
}

// lease takes one for an Event that is written now. That of the first Event of a
// while is asked for by whoever needs it, and the others wait for it.
func (s *eventSource) lease(ctx context.Context, t *loadgen.Turn) (clientv3.LeaseID, error) {
	return s.leases.Take(time.Now(), func(ttl int64) (clientv3.LeaseID, error) { return t.Grant(ctx, "events", ttl) })
}
