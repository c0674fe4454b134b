package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// dispatcher hands each turn to its actor when it is due, and never waits for
// one: what is too much is left out and counted, so that a slow server can't slow
// down the load.
type dispatcher struct {
	env   *Env
	rec   *recorder
	begun time.Time
	limit int64 // turns that may wait or be under way

	horizon time.Duration // nothing is due from then on; 0: no end
	gate    sync.RWMutex  // held by whoever offers a turn that follows an answer
	over    bool          // no more turns are offered

	players  []*player
	ready    chan *player // to workers that have nothing to do
	quit     chan struct{}
	workers  sync.WaitGroup
	inFlight atomic.Int64
}

// player is an actor with the turns that wait for the one under way.
type player struct {
	actor Actor
	pace  pace

	mu      sync.Mutex
	busy    bool
	waiting []upcoming
}

func newDispatcher(env *Env, actors []Actor, o Options, begun time.Time) *dispatcher {
	d := &dispatcher{env: env, rec: env.rec, begun: begun, limit: int64(o.MaxInFlight), ready: make(chan *player), quit: make(chan struct{})}
	for _, a := range actors {
		d.players = append(d.players, &player{actor: a, pace: newPace(o, a.Name, a.Schedule)})
	}
	if o.Duration > 0 {
		d.horizon = o.Warmup + o.Duration
	}
	return d
}

// play hands out turns until the horizon, the end of ctx, or stop. Requests run in a context of their own, and may go on after it returned.
func (d *dispatcher) play(ctx, requests context.Context, t *timeline, stop <-chan struct{}) {
	defer d.shut()
	timer := time.NewTimer(0)
	defer timer.Stop()
	until := func(at time.Time) bool {
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			case <-stop:
			}
		}
		return ctx.Err() == nil && !closed(stop)
	}
	for {
		u, more := t.peek()
		switch {
		case more && d.within(u.due):
			if !until(d.begun.Add(u.due)) {
				return
			}
			t.advance()
			d.offer(requests, u)
		case d.horizon > 0: // nothing more is due, and the run goes on to its end
			until(d.begun.Add(d.horizon))
			return
		default:
			select {
			case <-ctx.Done():
			case <-stop:
			}
			return
		}
	}
}

func (d *dispatcher) within(due time.Duration) bool { return d.horizon == 0 || due < d.horizon }

// shut ends what follows from answers.
func (d *dispatcher) shut() {
	d.gate.Lock()
	d.over = true
	d.gate.Unlock()
}

// follow offers the turn behind the n-th of a player that slides, a step from now.
func (d *dispatcher) follow(ctx context.Context, p *player, u upcoming) {
	step := p.pace.step(u.n)
	next := upcoming{due: time.Since(d.begun) + step, actor: u.actor, n: u.n + 1}
	if p.pace.ends(u.n) || !d.within(next.due) {
		return
	}
	time.AfterFunc(step, func() {
		d.gate.RLock()
		defer d.gate.RUnlock()
		if !d.over {
			d.offer(ctx, next)
		}
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// offer gives a turn to its actor, or leaves it out.
func (d *dispatcher) offer(ctx context.Context, u upcoming) {
	due, p := d.begun.Add(u.due), d.players[u.actor]
	d.rec.scheduled(due)
	if d.inFlight.Load() >= d.limit {
		d.rec.dropped(due)
		if p.pace.sliding { // no answer will come that it could go on from
			d.follow(ctx, p, u)
		}
		return
	}
	d.inFlight.Add(1)
	p.mu.Lock()
	p.waiting = append(p.waiting, u)
	idle := !p.busy
	p.busy = true
	p.mu.Unlock()
	if !idle {
		return
	}
	select {
	case d.ready <- p:
	default: // every worker has something to do
		d.workers.Add(1)
		go d.work(ctx, p)
	}
}

// work plays one player, and then whichever is ready next. Workers are kept, for
// a new goroutine would have to grow its stack for each request. There are never
// more of them than there were turns under way at a time.
func (d *dispatcher) work(ctx context.Context, p *player) {
	defer d.workers.Done()
	for {
		d.turns(ctx, p)
		select {
		case p = <-d.ready:
		case <-d.quit:
			return
		}
	}
}

// turns has a player take its turn, and those that have become due meanwhile.
func (d *dispatcher) turns(ctx context.Context, p *player) {
	for first := true; ; first = false {
		p.mu.Lock()
		if len(p.waiting) == 0 {
			p.busy, p.waiting = false, nil
			p.mu.Unlock()
			return
		}
		u := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.mu.Unlock()
		d.turn(ctx, p, u, first)
		d.inFlight.Add(-1)
	}
}

func (d *dispatcher) turn(ctx context.Context, p *player, u upcoming, prompt bool) {
	due := d.begun.Add(u.due)
	lag := time.Duration(-1)
	if prompt {
		lag = max(0, time.Since(due))
	}
	d.rec.began(due, lag)
	p.actor.Act(ctx, &Turn{Due: due, N: u.n, env: d.env, apiserver: p.actor.APIServer, seed: p.pace.key, from: due})
	if p.pace.sliding {
		d.follow(ctx, p, u)
	}
}

// drain waits until nothing is under way any more and nobody is behind, or ctx ends.
func (d *dispatcher) drain(ctx context.Context, behind func() bool) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for d.inFlight.Load() > 0 || behind() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// close ends the workers, and waits for them.
func (d *dispatcher) close() {
	close(d.quit)
	d.workers.Wait()
}
