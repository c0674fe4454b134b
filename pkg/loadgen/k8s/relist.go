package k8s

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// RelistOptions are the knobs of k8s-relist.
type RelistOptions struct {
	Objects  int           // pods that there are, and as many ConfigMaps of 1 KiB
	Kinds    int           // resources that an API server caches; the others than those two are empty
	Period   time.Duration // from one restart of the API servers to the next
	Stream   bool          // caches fill themselves by RangeStream, in place of pages of 10,000
	PageSize int64         // objects of a page, without Stream
	First    time.Duration // until the first of them, from when the load begins
	Stagger  time.Duration // between the beginnings of two API servers
	Nodes    int           // whose heartbeats are the foreground
}

// DefaultRelistOptions are API servers that all begin anew every 20 seconds, each
// with 75 resources, by pages.
func DefaultRelistOptions() RelistOptions {
	return RelistOptions{Objects: 5000, Kinds: 75, Period: 20 * time.Second, PageSize: cachePage, Nodes: 100}
}

// Relist is the load of API servers that begin anew: they read everything, and
// follow it from there.
type Relist struct {
	RelistOptions
}

// Name is that of the command.
func (*Relist) Name() string { return "k8s-relist" }

// Params are the knobs.
func (r *Relist) Params() map[string]any {
	return map[string]any{"objects": r.Objects, "kinds": r.Kinds, "period_seconds": r.Period.Seconds(), "stream": r.Stream,
		"page_size": r.PageSize, "first_seconds": r.First.Seconds(), "stagger_seconds": r.Stagger.Seconds(), "nodes": r.Nodes}
}

// Figures are what can be measured of it.
func (r *Relist) Figures() result.Names {
	out := counts("watch_events")
	for k := range min(r.Kinds, 3) { // all others are called as the third
		how := r.how()
		how.class = kindClass(k)
		out = out.With(how.figures("")).With(sends("cache_filled", how.class))
	}
	return out.With(foregroundFigures(r.Nodes))
}

// how is how caches fill themselves.
func (r *Relist) how() listing {
	if r.Stream {
		return listing{stream: true, leader: true}
	}
	return listing{page: r.PageSize, leader: true}
}

// Check finds what is wrong with the knobs.
func (r *Relist) Check() error {
	switch {
	case r.Objects < 1 || r.Kinds < 2 || r.Kinds > mostKinds:
		return badFlag(r, fmt.Sprintf("--objects must be 1 or more, --kinds from 2 to %d", mostKinds))
	case r.Period <= 0 || r.First < 0 || r.Stagger < 0 || r.PageSize < 0 || r.Nodes < 0:
		return badFlag(r, "--period must be more than 0; --first, --stagger, --page-size and --nodes can't be negative")
	}
	return nil
}

// Setup makes the objects that are not there yet.
func (r *Relist) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := r.Check(); err != nil {
		return loadgen.Cast{}, err
	}
	if r.Stream {
		if err := needStreams(env, r); err != nil {
			return loadgen.Cast{}, err
		}
	}
	cast, err := foreground(ctx, env, r.Nodes)
	if err != nil {
		return cast, err
	}
	if _, err := makePods(ctx, env, env.Prefix+"/pods/", r.Objects, 10); err != nil {
		return cast, err
	}
	if err := makeConfigMaps(ctx, env, env.Prefix+"/configmaps/", r.Objects); err != nil {
		return cast, err
	}
	how := r.how()
	for i := range env.APIServers() {
		for k := range r.Kinds {
			c := &refill{resource: kindName(k), prefix: env.Prefix + "/" + kindName(k) + "/", how: how}
			c.how.class = kindClass(k)
			cast.Actors = append(cast.Actors, loadgen.Actor{Name: fmt.Sprintf("cache/%d/%s", i, c.resource), APIServer: i, Act: c.act,
				Schedule: loadgen.Schedule{Period: r.Period, Delay: r.First + time.Duration(i)*r.Stagger, Together: true}})
		}
	}
	return cast, nil
}

// kindName is the resource of a cache.
func kindName(k int) string {
	switch k {
	case 0:
		return "pods"
	case 1:
		return "configmaps"
	}
	return fmt.Sprintf("kind-%02d", k)
}

// kindClass keeps apart what is large from the many that are empty.
func kindClass(k int) string {
	if k < 2 {
		return kindName(k)
	}
	return "others"
}

// smallConfigMap is what most ConfigMaps hold, in bytes.
const smallConfigMap = 1 << 10

func makeConfigMaps(ctx context.Context, env *loadgen.Env, prefix string, n int) error {
	objects, template := make([]*object, n), shape.ConfigMap(smallConfigMap)
	id := func(i int) shape.ID { return shape.ID{App: i, Namespace: i % 10, Born: time.Now()} }
	for i := range objects {
		objects[i] = &object{key: prefix + shape.NamespaceName(i%10) + "/" + shape.AppName(i)}
	}
	return seed(ctx, env, "configmaps", prefix, "making configmaps", objects, func(i int) string { return template.Value(id(i), time.Now()) })
}

// refill is a cache that fills itself again and again. It belongs to one actor.
type refill struct {
	resource, prefix string
	how              listing
	stop             context.CancelFunc // of the watch before
}

// act reads everything and begins a watch where that was, in place of the one
// before. It takes until the cache can be read from.
func (c *refill) act(ctx context.Context, t *loadgen.Turn) {
	if c.stop != nil {
		c.stop()
	}
	all, err := c.how.run(ctx, t, c.resource, c.prefix)
	if err != nil {
		return
	}
	watch, stop := context.WithCancel(shape.WithLeader(ctx))
	c.stop = stop
	events := shape.Watch(c.prefix, all.revision+1).Open(watch, t.Client(c.resource))
	if ctx.Err() == nil {
		t.Env().Observe("cache_filled", c.how.class, result.OK, t.Due, all.bytes)
	}
	go func() {
		for r := range events { // to its end, or the client would keep them
			t.Env().Count("watch_events", int64(len(r.Events)))
		}
	}()
}
