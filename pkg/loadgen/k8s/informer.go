package k8s

import (
	"context"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/shape"
	"kvd/pkg/ops/wait"
)

// progressPeriod is how often an API server asks for word of a watch's progress
// while a reader waits for its cache (cacher/progress/watch_progress.go).
const progressPeriod = 100 * time.Millisecond

// informer is what an API server's cache does of a resource: it follows it by one
// watch, and knows up to which revision it has seen everything. It is safe for
// concurrent use.
type informer struct {
	env      *loadgen.Env
	client   *clientv3.Client
	resource string
	prefix   string // ends with a slash

	mu       sync.Mutex
	revision int64
	advanced chan struct{} // closed when the revision grows
	waiting  chan struct{} // has one entry while somebody began to wait
	waiters  int
}

func newInformer(env *loadgen.Env, apiserver int, resource, prefix string) *informer {
	return &informer{env: env, client: env.Client(apiserver, resource), resource: resource, prefix: prefix,
		advanced: make(chan struct{}), waiting: make(chan struct{}, 1)}
}

// run follows the resource from now on until ctx ends. A watch that ended before
// is begun anew.
func (i *informer) run(ctx context.Context) error {
	var progress sync.WaitGroup
	progress.Go(func() { i.askForProgress(ctx) })
	defer progress.Wait()
	for ctx.Err() == nil {
		if i.follow(ctx); ctx.Err() == nil {
			i.env.Count("watches_ended", 1)
			_ = wait.For(ctx, time.Second)
		}
	}
	return nil
}

// follow watches until the watch ends.
func (i *informer) follow(ctx context.Context) {
	now, err := i.probe().Send(ctx, i.client)
	if err != nil {
		return
	}
	i.reached(now.Header.Revision)
	ctx, cancel := context.WithCancel(shape.WithLeader(ctx))
	defer cancel()
	for r := range shape.Watch(i.prefix, now.Header.Revision+1).Open(ctx, i.client) {
		if r.Err() != nil {
			return
		}
		i.reached(r.Header.Revision)
		if len(r.Events) > 0 {
			i.env.Count("watch_events", int64(len(r.Events)))
			i.env.Count("watch_bytes", eventBytes(r.Events))
		}
	}
}

// eventBytes is what events hold of keys and values.
func eventBytes(events []*clientv3.Event) int64 {
	n := 0
	for _, e := range events {
		n += len(e.Kv.Key) + len(e.Kv.Value)
		if e.PrevKv != nil {
			n += len(e.PrevKv.Key) + len(e.PrevKv.Value)
		}
	}
	return int64(n)
}

func (i *informer) reached(revision int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if revision > i.revision {
		i.revision = revision
		close(i.advanced)
		i.advanced = make(chan struct{})
	}
}

// probe asks etcd for the current revision.
func (i *informer) probe() shape.Read { return shape.Probe(strings.TrimSuffix(i.prefix, "/")) }

// refreshTime is how long refresh waits for an answer.
const refreshTime = time.Second

// refresh asks for word of the watch's progress and returns the revision that has
// been reached. kubeadm has etcd send word every five seconds by itself.
func (i *informer) refresh(ctx context.Context) int64 {
	i.mu.Lock()
	advanced := i.advanced
	i.mu.Unlock()
	if i.client.RequestProgress(shape.WithLeader(ctx)) == nil {
		timeout := time.NewTimer(refreshTime)
		defer timeout.Stop()
		select {
		case <-advanced:
		case <-timeout.C:
		case <-ctx.Done():
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.revision
}

// wait returns when all up to a revision has been seen, or ctx ended.
func (i *informer) wait(ctx context.Context, revision int64) error {
	for {
		i.mu.Lock()
		if i.revision >= revision {
			i.mu.Unlock()
			return nil
		}
		advanced := i.advanced
		i.waiters++
		i.mu.Unlock()
		select {
		case i.waiting <- struct{}{}:
		default:
		}
		select {
		case <-advanced:
		case <-ctx.Done():
		}
		i.mu.Lock()
		i.waiters--
		i.mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// askForProgress asks at once when a reader begins to wait, and every 100 ms as
// long as one does, so at most ten times a second however many they are.
func (i *informer) askForProgress(ctx context.Context) {
	for {
		select {
		case <-i.waiting:
		case <-ctx.Done():
			return
		}
		for i.awaited() && ctx.Err() == nil {
			if i.client.RequestProgress(shape.WithLeader(ctx)) == nil {
				i.env.Count("progress_requests", 1)
			}
			_ = wait.For(ctx, progressPeriod)
		}
	}
}

func (i *informer) awaited() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.waiters > 0
}
