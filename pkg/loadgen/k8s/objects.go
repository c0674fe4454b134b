package k8s

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// ObjectOptions are the knobs of k8s-objects.
type ObjectOptions struct {
	Size         int64   // bytes that each ConfigMap holds
	Chunk        int64   // bytes of a part, if it is kept in parts that are written alone; 0: whole
	Objects      int     // that there are
	Writers      int     // who write, each its own share of them
	Rate         float64 // writes a second, of all writers
	UntilNoSpace bool    // make new ones, until the quota is reached
	Foreground   HeartbeatOptions
}

// DefaultObjectOptions are five controllers that each rewrite a large ConfigMap
// every second, beside the heartbeats of a hundred nodes.
func DefaultObjectOptions() ObjectOptions {
	return ObjectOptions{Size: 1 << 20, Objects: 20, Writers: 5, Rate: 5, Foreground: DefaultHeartbeatOptions()}
}

// Objects is the load of ConfigMaps that are larger than etcd likes.
type Objects struct {
	ObjectOptions

	prefix string
	value  *shape.Template
	born   time.Time
}

// Name is that of the command.
func (*Objects) Name() string { return "k8s-objects" }

// Params are the knobs.
func (o *Objects) Params() map[string]any {
	return map[string]any{"size_bytes": o.Size, "chunk_bytes": o.Chunk, "objects": o.Objects, "writers": o.Writers, "rate": o.Rate,
		"until_nospace": o.UntilNoSpace, "nodes": o.Foreground.Nodes}
}

// Figures are what can be measured of it.
func (o *Objects) Figures() result.Names {
	out := sends("txn", "configmaps")
	if o.Foreground.Nodes > 0 {
		out = out.With((&Heartbeats{o.Foreground}).Figures())
	}
	return out
}

// Check finds what is wrong with the knobs.
func (o *Objects) Check() error {
	switch {
	case o.Size < 1 || o.Size > 64<<20:
		return badFlag(o, "--size must be from 1 byte to 64 MiB")
	case o.Chunk < 0 || o.Chunk > o.Size:
		return badFlag(o, "--chunk must be from 0, which is whole, to --size")
	case o.Objects < 1 || o.Writers < 1 || o.Rate <= 0:
		return badFlag(o, "--objects, --writers and --rate must be more than 0")
	case !o.UntilNoSpace && o.Objects < o.Writers:
		return badFlag(o, "--objects must be no less than --writers, each of whom writes its own")
	case o.Foreground.Nodes < 0:
		return badFlag(o, "--nodes can't be negative")
	}
	return nil
}

// Setup makes the objects that are not there yet, and the nodes in the
// foreground.
func (o *Objects) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := o.Check(); err != nil {
		return loadgen.Cast{}, err
	}
	o.prefix, o.born = env.Prefix+"/configmaps/"+shape.NamespaceName(0)+"/", time.Now()
	o.value = shape.ConfigMap(int(o.partSize()))
	cast := loadgen.Cast{}
	if o.Foreground.Nodes > 0 {
		var err error
		if cast, err = (&Heartbeats{o.Foreground}).Setup(ctx, env); err != nil {
			return cast, err
		}
	}
	writers, err := o.writers(ctx, env)
	cast.Actors = append(cast.Actors, writers...)
	return cast, err
}

// parts is in how many an object is kept.
func (o *Objects) parts() int {
	if o.Chunk == 0 {
		return 1
	}
	return int((o.Size + o.Chunk - 1) / o.Chunk)
}

func (o *Objects) partSize() int64 {
	if o.Chunk == 0 {
		return o.Size
	}
	return o.Chunk
}

// writers are those who write, each at its share of the rate.
func (o *Objects) writers(ctx context.Context, env *loadgen.Env) ([]loadgen.Actor, error) {
	act := make([]func(context.Context, *loadgen.Turn), o.Writers)
	if o.UntilNoSpace {
		next, err := o.firstFree(ctx, env)
		if err != nil {
			return nil, err
		}
		for w := range act {
			act[w] = o.creator(next+w, o.Writers)
		}
	} else {
		all := make([]*object, o.Objects*o.parts())
		for i := range all {
			all[i] = &object{key: o.prefix + shape.AppName(i)}
		}
		err := seed(ctx, env, "configmaps", o.prefix, "making objects", all, func(i int) string { return o.value.Value(o.id(i), time.Now()) })
		if err != nil {
			return nil, err
		}
		for w := range act {
			act[w] = o.updater(all, w)
		}
	}
	period := time.Duration(float64(o.Writers) / o.Rate * float64(time.Second))
	actors := make([]loadgen.Actor, o.Writers)
	for w := range actors {
		actors[w] = loadgen.Actor{Name: fmt.Sprintf("writer/%d", w), APIServer: w, Schedule: loadgen.Schedule{Period: period}, Act: act[w]}
	}
	return actors, nil
}

func (o *Objects) id(i int) shape.ID { return shape.ID{App: i, Born: o.born} }

// updater rewrites one of the writer's objects each turn: the whole of it, or the
// one part that has changed.
func (o *Objects) updater(all []*object, w int) func(context.Context, *loadgen.Turn) {
	return func(ctx context.Context, t *loadgen.Turn) {
		which := o.pick(t.Rand(), w)
		ob := all[which]
		for range heartbeatTries { // the API server tries again after a conflict
			resp, err := t.Txn(ctx, "configmaps", shape.Update(ob.key, o.value.Value(o.id(which), time.Now()), ob.revision, 0))
			if err != nil {
				return
			}
			if ob.took(resp); resp.Succeeded {
				return
			}
		}
	}
}

// pick chooses one of a writer's objects, and one of its parts.
func (o *Objects) pick(rnd *rand.Rand, w int) int {
	own := (o.Objects - w + o.Writers - 1) / o.Writers
	return (w+rnd.IntN(own)*o.Writers)*o.parts() + rnd.IntN(o.parts())
}

// creator makes a new object each turn.
func (o *Objects) creator(next, step int) func(context.Context, *loadgen.Turn) {
	return func(ctx context.Context, t *loadgen.Turn) {
		i := next
		next += step
		_, _ = t.Txn(ctx, "configmaps", shape.Create(o.prefix+shape.AppName(i), o.value.Value(o.id(i), time.Now()), 0)) // recorded
	}
}

// firstFree returns the first number behind those that an earlier run's objects
// have.
func (o *Objects) firstFree(ctx context.Context, env *loadgen.Env) (int, error) {
	there, err := leftovers(ctx, env, "configmaps", o.prefix)
	if err != nil {
		return 0, err
	}
	free := 0
	for key := range there {
		name := strings.TrimPrefix(key, o.prefix)
		if n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:]); err == nil {
			free = max(free, n+1)
		}
	}
	return free, nil
}
