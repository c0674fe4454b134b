package loadgen

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"kvd/pkg/loadgen/result"
	"kvd/pkg/loadgen/shape"
	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/progress"
)

// Env is what a scenario plays in: where it may write, through which
// connections, and where it reports. It is safe for concurrent use.
type Env struct {
	// Prefix stands before all keys, in place of Kubernetes' "/registry", and does
	// not end with a slash. Nothing is written outside of it.
	Prefix string
	// Seed is what all that is random follows from.
	Seed uint64
	// Whole says that no other generator plays a part of this load.
	Whole bool
	// Members are the members at the beginning, by name.
	Members []result.Member

	values  shape.Values
	room    int64 // bytes that may be written before the load; under mu
	bounded bool  // by room
	mu      sync.Mutex
	scale   float64
	timeout time.Duration
	client  *cluster.Client // for causes, and how long a request of the preparation may take
	conns   *connections
	rec     *recorder
	sink    progress.Sink
	run     context.Context        // ends with the last request
	budget  atomic.Pointer[budget] // nil: no bound
	onSpent func()
	onFull  func()
	fullOne sync.Once
	wrote   atomic.Bool // something was made for the load to find
}

// Scaled divides a duration of Kubernetes by the time scale. The engine has done
// so for schedules.
func (e *Env) Scaled(d time.Duration) time.Duration { return scaled(d, e.scale) }

// ScaledTTL divides a lease's time to live, in seconds, by the time scale, and
// gives one second at least, which is etcd's unit.
func (e *Env) ScaledTTL(seconds int64) int64 {
	return max(1, int64(float64(seconds)/e.scale))
}

// APIServers returns how many API servers there are to be.
func (e *Env) APIServers() int { return e.conns.apiservers }

// Client returns the connection that an API server has for a resource, each of
// them its own, as kube-apiserver makes them. The index is taken modulo their
// number.
func (e *Env) Client(apiserver int, resource string) *clientv3.Client {
	return e.conns.client(apiserver, resource)
}

// Reserve refuses to make what does not fit below the share of the quota at which
// loads stop: so many objects of about so many bytes. Its error is a *fault.Error.
func (e *Env) Reserve(what string, objects int, each int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	need := int64(objects) * (each + revisionOverhead)
	if e.bounded && need > e.room {
		return refused("quota_guard", fmt.Sprintf("%s takes some %s, and there are %s left before the load would stop for the quota's sake",
			what, humanize.IBytes(uint64(need)), humanize.IBytes(uint64(max(e.room, 0)))),
			"ask for fewer objects, or give the members a larger --quota-backend-bytes; --stop-at-usage 0 goes on to NOSPACE")
	}
	e.room -= need
	return nil
}

// revisionOverhead is about what a revision takes beside key and value, in bytes:
// bbolt's and mvcc's own, and pages that are not filled.
const revisionOverhead = 200

// Prepare sends a request that is not part of the load, and not recorded: one that
// makes what the load needs to find, or sees what is there. It concerns key. The
// connection waits for a server that is gone, as kube-apiserver's does, so the
// request ends after the client's command timeout, or Options.RequestTimeout where that
// is shorter, and the server is looked at then.
// Its error is a *fault.Error.
func (e *Env) Prepare(ctx context.Context, apiserver int, resource, key string, send func(context.Context, *clientv3.Client) error) error {
	bounded, cancel := context.WithTimeout(ctx, min(e.timeout, e.client.Config().CommandTimeout))
	defer cancel()
	err := send(bounded, e.Client(apiserver, resource))
	if err == nil {
		return nil
	}
	if why := cluster.Classify("loadgen", key, err); why.Kind != fault.Unavailable {
		return why
	}
	return e.client.Explain(ctx, "loadgen", e.conns.endpointOf(apiserver), err)
}

// Commit is Prepare for a write.
func (e *Env) Commit(ctx context.Context, apiserver int, resource, key string, req shape.Txn) (resp *clientv3.TxnResponse, err error) {
	err = e.Prepare(ctx, apiserver, resource, key, func(ctx context.Context, c *clientv3.Client) (err error) {
		resp, err = req.As(e.values).Commit(ctx, c)
		return err
	})
	if err == nil {
		e.wrote.Store(true)
	}
	return resp, err
}

// Count adds to one of the scenario's own counters: "late_heartbeats". Only what
// happens after the warm-up counts. Names are for --slo too, and few.
func (e *Env) Count(name string, n int64) { e.rec.count(name, n) }

// Observe records something that no turn did: an event that a watch delivered,
// say. It began at from, and is over now.
func (e *Env) Observe(rpc, resource, outcome string, from time.Time, bytes int64) {
	now := time.Now()
	e.rec.record(result.Op{RPC: rpc, Resource: resource, Outcome: outcome}, from, from, from, now, bytes)
}

// Event notes something that divides the run, as of now.
func (e *Env) Event(what, text string) { e.rec.event(what, text) }

// preloaders is how many requests of Each are under way at a time.
const preloaders = 32

// Each calls fn for each number below n, several at a time, to have made what the
// load needs to find. what says what is being done; the first error ends it and
// is returned, and so is the end of ctx: some of it is not all.
func (e *Env) Each(ctx context.Context, n int, what string, fn func(ctx context.Context, i int) error) error {
	whole := ctx
	g, ctx := errgroup.WithContext(whole)
	g.SetLimit(preloaders)
	var mu sync.Mutex
	done := 0
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := fn(ctx, i); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if done++; done%64 == 0 || done == n {
				e.sink.Event(progress.Event{Op: "loadgen", Phase: what, Done: int64(done), Total: int64(n)})
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := context.Cause(whole); err != nil {
		return cluster.Classify("loadgen", "", err)
	}
	return nil
}

// ended reports that no answer is waited for any more.
func (e *Env) ended() bool { return e.run.Err() != nil }

// budget is what may be written until it is set anew.
type budget struct {
	mu      sync.Mutex
	left    int64 // bytes
	tooMuch bool
}

// pageShare is which part more than its bytes a value takes in the file for a while:
// pages that are not full, and those that a commit has freed and the next uses.
const pageShare = 5

// spend counts what is about to be written, and reports whether there is room for it.
// The first for which there is none ends the run.
func (e *Env) spend(bytes int64) bool {
	b := e.budget.Load()
	if b == nil {
		return true
	}
	b.mu.Lock()
	b.left -= bytes + bytes/pageShare + revisionOverhead
	first := b.left < 0 && !b.tooMuch
	b.tooMuch = b.tooMuch || first
	room := !b.tooMuch
	b.mu.Unlock()
	if first {
		e.onSpent()
	}
	return room
}

// full takes note of the first write that was refused for want of space.
func (e *Env) full(words string) {
	e.fullOne.Do(func() {
		e.rec.event("nospace", words)
		e.onFull()
	})
}
