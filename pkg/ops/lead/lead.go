// Package lead decides which of several kvd processes acts on a cluster: one
// wins an election under a key in that cluster and holds it for as long as it
// lives, the others stand by.
//
// The election is held before there is an emergency, since in one it can't be:
// under NOSPACE etcd grants no lease and takes no put, while a lease that exists
// is kept alive. A process that comes too late for that looks instead (see
// blind.go).
package lead

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/fault"
	"kvd/pkg/ops/metrics"
	"kvd/pkg/ops/progress"
	"kvd/pkg/ops/wait"
)

// Causes of the errors of Turn and Check. All are of kind Refused.
const (
	CauseOther = "other_holder" // another process holds the election
	CauseBusy  = "cluster_busy" // without an election: somebody is at it already
	CauseLost  = "lost_lead"    // the election was lost while a run was going
)

// Prefix is under which keys elections are held; the operation's name follows.
const Prefix = "kvd/schedule/"

// Options say which election, and for whom.
type Options struct {
	Op       string        // the operation: "defrag". Each has an election of its own
	TTL      time.Duration // after so long without a sign of life the holder counts as dead; whole seconds
	BlindMax time.Duration // without a lease: how long to wait, at random and at most, before looking
	BlindGap time.Duration // and between the two looks: longer than a run pauses between two members
	Metrics  metrics.Overrides
	Sink     progress.Sink
}

// DefaultOptions returns the times that hold unless told otherwise.
func DefaultOptions(op string) Options {
	return Options{Op: op, TTL: 15 * time.Second, BlindMax: 30 * time.Second, BlindGap: 8 * time.Second, Sink: progress.Discard}
}

// Holder is who holds an election: the value of its key.
type Holder struct {
	Op    string     `json:"op"`
	Host  string     `json:"host"`
	PID   int        `json:"pid"`
	Since time.Time  `json:"since"`               // when it began to stand for election
	RunAt *time.Time `json:"run_since,omitempty"` // when the run began that is going; nil between runs
}

// String names the holder and since when it has been at it.
func (h Holder) String() string {
	if h.RunAt != nil {
		return fmt.Sprintf("another run by %s since %s", h.who(), stamp(*h.RunAt))
	}
	return fmt.Sprintf("another run by %s since %s; it holds the election and is between two runs", h.who(), stamp(h.Since))
}

func (h Holder) who() string { return fmt.Sprintf("%s (pid %d)", h.Host, h.PID) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Elector stands for election until it is closed. It is safe for concurrent use.
type Elector struct {
	client *cluster.Client
	opts   Options
	me     Holder
	cancel context.CancelFunc
	done   chan struct{}

	left []clientv3.LeaseID // leases that could not be given back; of the goroutine that stands

	mu      sync.Mutex
	term    *term
	why     error         // why there is no term
	settled chan struct{} // closed once the first attempt has ended, either way
}

// term is one session and the candidacy that hangs on it.
type term struct {
	lease    clientv3.LeaseID
	election *concurrency.Election
	key      string
	won      chan struct{} // closed when the election said so
	until    atomic.Int64  // the lease lives until then at least, in nanoseconds of time.Since(born)
	born     time.Time     // with its monotonic reading: a clock that is set changes nothing
	ended    chan struct{} // closed when the lease is not kept alive any more
}

// elected reports that the election said so. Until then it may still write the
// value of our key.
func (t *term) elected() bool {
	select {
	case <-t.won:
		return true
	default:
		return false
	}
}

func (t *term) alive() bool {
	select {
	case <-t.ended:
		return false
	default:
		return int64(time.Since(t.born)) < t.until.Load()
	}
}

// keep renews the lease until ctx ends or the lease has. A renewal counts from
// when it was asked for. A lease that was not renewed in time may still be there,
// since no time passes for it while a cluster is down: then the key has been
// there all the while, nobody else can have been elected, and the term goes on.
func (t *term) keep(ctx context.Context, quorum *cluster.QuorumClient, ttl time.Duration) {
	defer close(t.ended)
	for {
		if wait.For(ctx, ttl/4) != nil {
			return
		}
		asked := time.Since(t.born)
		rctx, cancel := context.WithTimeout(ctx, ttl/3)
		lives, err := quorum.KeepAlive(rctx, t.lease)
		cancel()
		switch {
		case err == nil:
			t.until.Store(int64(asked + lives))
		case fault.CauseOf(err) == cluster.CauseLeaseNotFound, !t.alive() && fault.KindOf(err) != fault.Unavailable:
			return
		}
	}
}

// Stand begins to stand for election. Close ends it.
func Stand(client *cluster.Client, o Options) *Elector {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Elector{client: client, opts: o, cancel: cancel, done: make(chan struct{}), settled: make(chan struct{}),
		me: Holder{Op: o.Op, Host: host, PID: os.Getpid(), Since: time.Now().UTC()}}
	go e.stand(ctx)
	return e
}

// Close gives the election up, so that another takes it at once. It waits for
// that for a few seconds at most, and no longer than ctx; what could not be given
// up ends with its lease.
func (e *Elector) Close(ctx context.Context) {
	e.cancel()
	select {
	case <-e.done:
	case <-ctx.Done():
	}
}

// prefix is where the candidates' keys are.
func (e *Elector) prefix() string { return Prefix + e.opts.Op }

const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 5 * time.Second
)

// stand has one session after another: one that is lost, to a stall or a lost
// connection, is followed by a new one.
func (e *Elector) stand(ctx context.Context) {
	defer close(e.done)
	var once sync.Once
	pause := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := e.serve(ctx, func() { once.Do(func() { close(e.settled) }) })
		e.set(nil, err)
		once.Do(func() { close(e.settled) })
		if time.Since(began) > retryMost {
			pause = retryFirst
		}
		if wait.For(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, retryMost)
	}
}

func (e *Elector) set(t *term, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term, e.why = t, why
}

func (e *Elector) state() (*term, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term, e.why
}

// serve has one session and stands with it until the session is lost or ctx
// ends. It says so when it has put its name down.
func (e *Elector) serve(ctx context.Context, standing func()) error {
	quorum, err := e.client.Quorum(ctx)
	if err != nil {
		return err
	}
	if err := e.giveBack(ctx, quorum); err != nil {
		return err
	}
	t := &term{born: time.Now(), won: make(chan struct{}), ended: make(chan struct{})}
	if t.lease, err = quorum.LeaseGrant(ctx, int64(e.opts.TTL.Seconds())); err != nil {
		return err
	}
	t.until.Store(int64(e.opts.TTL))
	// What follows outlives ctx by as long as it takes to give the lease back.
	sctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer func() {
		rctx, cancel := context.WithTimeout(sctx, 2*time.Second)
		defer cancel()
		e.left = append(e.left, t.lease)
		_ = e.giveBack(rctx, quorum) // else it ends by itself after its TTL
	}()
	go t.keep(sctx, quorum, e.opts.TTL)
	// The session is here to hang the election on. It keeps the lease alive as
	// well, through one member; whether that one is stuck does not matter.
	session, err := concurrency.NewSession(quorum.Etcd(), concurrency.WithLease(t.lease), concurrency.WithContext(sctx))
	if err != nil {
		return quorum.Explain(ctx, "keep a lease alive", err)
	}
	defer session.Orphan()
	t.election = concurrency.NewElection(session, e.prefix())
	t.key = fmt.Sprintf("%s/%x", e.prefix(), t.lease)
	return e.campaign(ctx, quorum, t, standing)
}

// giveBack revokes the leases of earlier terms. One that is still there would
// have this process wait in the queue behind itself.
func (e *Elector) giveBack(ctx context.Context, quorum *cluster.QuorumClient) error {
	for len(e.left) > 0 {
		if err := quorum.LeaseRevoke(ctx, e.left[0]); err != nil && fault.CauseOf(err) != cluster.CauseLeaseNotFound {
			return err
		}
		e.left = e.left[1:]
	}
	return nil
}

// campaign puts the candidate's key, and waits in the queue for as long as it
// takes: the first in it is the holder.
func (e *Elector) campaign(ctx context.Context, quorum *cluster.QuorumClient, t *term, standing func()) error {
	// Campaign would put the key itself and not say when. It takes one with this
	// value for its own.
	mine := e.value(nil)
	if _, err := quorum.Put(ctx, t.key, mine, clientv3.WithLease(t.lease)); err != nil {
		return err
	}
	e.set(t, nil)
	standing()
	cctx, cancel := context.WithCancel(ctx)
	defer cancel()
	won := make(chan error, 1)
	go func() { won <- t.election.Campaign(cctx, mine) }()
	for {
		select {
		case <-t.ended:
			return lost()
		case <-ctx.Done():
			return ctx.Err()
		case err := <-won:
			if err != nil {
				return quorum.Explain(ctx, "stand for election", err)
			}
			close(t.won)
			won = nil
		}
	}
}

func lost() error {
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseLost, Op: "hold the election", Msg: "the lease was not kept alive in time, and another may hold the election now"}
}

func (e *Elector) value(run *time.Time) string {
	h := e.me
	h.RunAt = run
	raw, _ := json.Marshal(h)
	return string(raw)
}
