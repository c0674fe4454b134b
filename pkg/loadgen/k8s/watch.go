package k8s

import (
	"context"
	"fmt"
	"time"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
)

// How watches reach the members.
const (
	StreamsOwn    = "own"    // each on a stream and a connection of its own
	StreamsShared = "shared" // all of an API server on one stream
)

// slowPods is what the events of those who read slowly are counted as.
const slowPods = "pods (slow)"

// WatchOptions are the knobs of k8s-watch.
type WatchOptions struct {
	Informers int           // who follow the pods
	Slow      int           // of them, how many read slowly
	SlowRate  int64         // bytes a second that those read
	Quiet     int           // more of them, in a namespace where nothing happens
	Streams   string        // StreamsOwn or StreamsShared
	PrevKV    bool          // events bring the value that they replaced, as API servers want
	Bookmarks bool          // word of progress where nothing happens
	Shards    int           // namespaces; each informer follows one of them
	Reconnect time.Duration // how often each begins anew where it was, 0: never
	Objects   int           // pods that there are
	Rate      float64       // updates of them in a second
	Nodes     int           // whose heartbeats are the foreground
}

// DefaultWatchOptions are ten informers that follow pods of which 200 change in a
// second, with an API server's options.
func DefaultWatchOptions() WatchOptions {
	return WatchOptions{Informers: 10, SlowRate: 10 << 10, Streams: StreamsOwn, PrevKV: true, Bookmarks: true, Shards: 1,
		Objects: 1000, Rate: 200, Nodes: 100}
}

// Watch is the load of informers that follow pods.
type Watch struct {
	WatchOptions
}

// Name is that of the command.
func (*Watch) Name() string { return "k8s-watch" }

// Params are the knobs.
func (w *Watch) Params() map[string]any {
	return map[string]any{"informers": w.Informers, "slow": w.Slow, "slow_bytes_per_second": w.SlowRate, "quiet": w.Quiet,
		"streams": w.Streams, "prev_kv": w.PrevKV, "bookmarks": w.Bookmarks, "shards": w.Shards,
		"reconnect_seconds": w.Reconnect.Seconds(), "objects": w.Objects, "rate": w.Rate, "nodes": w.Nodes}
}

// Figures are what can be measured of it.
func (w *Watch) Figures() result.Names {
	out := sends("txn", "pods").With(counts("missing_events", "duplicate_events", "unordered_events", "events_too_old", "watches_compacted", "watches_ended"))
	if w.Slow < w.Informers {
		out = out.With(sends("watch_event", "pods"))
	}
	if w.Slow > 0 {
		out = out.With(sends("watch_event", slowPods))
	}
	return out.With(foregroundFigures(w.Nodes))
}

// Check finds what is wrong with the knobs.
func (w *Watch) Check() error {
	switch {
	case w.Informers < 0 || w.Quiet < 0 || w.Informers+w.Quiet < 1:
		return badFlag(w, "--informers and --quiet can't be negative, and one of them must be 1 or more")
	case w.Slow < 0 || w.Slow > w.Informers:
		return badFlag(w, "--slow says how many of the --informers are")
	case w.SlowRate < 1:
		return badFlag(w, "--slow-rate must be 1 byte or more")
	case w.Streams != StreamsOwn && w.Streams != StreamsShared:
		return badFlag(w, fmt.Sprintf("--streams %q: want %s or %s", w.Streams, StreamsOwn, StreamsShared))
	case w.Shards < 1 || w.Objects < w.Shards || w.Rate <= 0:
		return badFlag(w, "--shards must be 1 or more, --objects no less than --shards, --rate more than 0")
	case w.Reconnect < 0 || w.Nodes < 0:
		return badFlag(w, "--reconnect and --nodes can't be negative")
	}
	return nil
}

// Setup makes the pods and begins the watches.
func (w *Watch) Setup(ctx context.Context, env *loadgen.Env) (loadgen.Cast, error) {
	if err := w.Check(); err != nil {
		return loadgen.Cast{}, err
	}
	if !env.Whole {
		return loadgen.Cast{}, badFlag(w, "--shard: how late events come is measured beside the writes, so all of this load is played by one generator")
	}
	cast, err := foreground(ctx, env, w.Nodes)
	if err != nil {
		return cast, err
	}
	prefix := env.Prefix + "/pods/"
	pods, err := makePods(ctx, env, prefix, w.Objects, w.Shards)
	if err != nil {
		return cast, err
	}
	followers := w.followers(env, prefix)
	writes := newWritten(func(shard int, revision int64, at time.Time) {
		for _, f := range followers {
			if f.shard == shard && f.next.Load() <= revision {
				f.never(at)
			}
		}
	})
	for _, s := range w.streams(env, followers, writes) {
		cast.Background = append(cast.Background, loadgen.Beside{Run: s.run, Behind: s.behind})
	}
	cast.Actors = append(cast.Actors, w.writers(pods, writes)...)
	return cast, nil
}

// followers are the informers, those that read slowly first.
func (w *Watch) followers(env *loadgen.Env, prefix string) []*follower {
	followers := make([]*follower, w.Informers+w.Quiet)
	for i := range followers {
		f := &follower{env: env, prefix: prefix, shard: i % w.Shards, label: "pods"}
		if i >= w.Informers {
			f.shard = w.Shards
		}
		if w.Shards > 1 || f.shard == w.Shards {
			f.prefix += shape.NamespaceName(f.shard) + "/"
		}
		if i < w.Slow {
			f.rate, f.label = w.SlowRate, slowPods
		}
		followers[i] = f
	}
	return followers
}

// streams divides the informers among streams: one each, or one for each API
// server.
func (w *Watch) streams(env *loadgen.Env, followers []*follower, writes *written) []*watchStream {
	n := len(followers)
	if w.Streams == StreamsShared {
		n = min(n, env.APIServers())
	}
	streams := make([]*watchStream, n)
	for i := range streams {
		streams[i] = &watchStream{env: env, client: env.Client(i, fmt.Sprintf("watch-%d", i)), written: writes,
			prevKV: w.PrevKV, progress: w.Bookmarks, reconnect: env.Scaled(w.Reconnect)}
	}
	for i, f := range followers {
		streams[i%n].followers = append(streams[i%n].followers, f)
	}
	return streams
}

// watchWriters is how many write; each has its own share of the pods.
const watchWriters = 20

func (w *Watch) writers(pods []*object, writes *written) []loadgen.Actor {
	n := min(watchWriters, len(pods))
	running := shape.Pods()[shape.Running]
	actors := make([]loadgen.Actor, n)
	for i := range actors {
		actors[i] = loadgen.Actor{Name: fmt.Sprintf("writer/%d", i), APIServer: i,
			Schedule: loadgen.Schedule{Period: time.Duration(float64(n) / w.Rate * float64(time.Second))},
			Act: func(ctx context.Context, t *loadgen.Turn) {
				which := i + t.Rand().IntN((len(pods)-i+n-1)/n)*n
				o := pods[which]
				id := podID(which, w.Shards)
				if o.update(ctx, t, "pods", running.Value(id, time.Now()), 0) {
					writes.add(o.revision, id.Namespace)
				}
			}}
	}
	return actors
}
