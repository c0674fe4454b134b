package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// request is one put: when it was due, and how it ended.
type request struct {
	due      time.Time
	endpoint int
	took     time.Duration // from the due time
	err      error
}

// load puts at a fixed rate, whatever becomes of earlier puts.
type load struct {
	clients []*clientv3.Client
	o       options
	mu      sync.Mutex
	done    []request
}

func newLoad(endpoints []string, o options) (*load, error) {
	l := &load{o: o}
	for _, ep := range endpoints {
		eps := []string{ep}
		if o.Balanced {
			eps = endpoints
		}
		c, err := clientv3.New(clientv3.Config{Logger: zap.NewNop(), Endpoints: eps})
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, c)
		if o.Balanced {
			break
		}
	}
	return l, nil
}

// run sends until ctx ends and returns when the last put has ended.
func (l *load) run(ctx context.Context) {
	period := time.Second / time.Duration(l.o.Rate)
	start := time.Now()
	var wg sync.WaitGroup
	for i := 0; ; i++ {
		due := start.Add(time.Duration(i) * period)
		select {
		case <-ctx.Done():
			wg.Wait()
			return
		case <-time.After(time.Until(due)):
		}
		wg.Go(func() { l.put(i, due) })
	}
}

func (l *load) put(i int, due time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), due.Add(l.o.Deadline))
	defer cancel()
	n := i % len(l.clients)
	_, err := l.clients[n].Put(ctx, fmt.Sprintf("/load/%04d", i%1000), due.String())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, request{due: due, endpoint: n, took: time.Since(due), err: err})
}

func (l *load) close() {
	for _, c := range l.clients {
		_ = c.Close()
	}
}

// failed returns those that did not succeed, in the order in which they were
// due.
func (l *load) failed() []request {
	var out []request
	for _, r := range l.done {
		if r.err != nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b request) int { return a.due.Compare(b.due) })
	return out
}
