package ops_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/server/local"
	"kvd/pkg/server/servertest"
)

const mib = 1 << 20

// world is one set of parameters a case is run with.
type world struct {
	members int
	quota   int64 // bytes, for every member
	secure  bool  // mutual TLS, and authentication as root
	auth    bool  // authentication as root, without TLS
	keyFmt  string
	server  string // a stock server; empty: kvd's own
}

// worlds are the sets each case is run with: the plain one, another quota on
// three members, and a secured cluster whose keys are not UTF-8.
func worlds() map[string]world {
	return map[string]world{
		"1 member":           {members: 1, quota: 16 * mib, keyFmt: "/registry/pods/default/p%d"},
		"3 members 8 MiB":    {members: 3, quota: 8 * mib, keyFmt: "/registry/configmaps/kube-system/c%d"},
		"mTLS auth bin keys": {members: 1, quota: 10 * mib, secure: true, keyFmt: "\xff\xfe\x00%d"},
	}
}

// plain is the world that `make test` tries a case in, and otherWorlds are those of
// `make test-more`.
func plain() map[string]world { return only(worlds(), "1 member") }

func otherWorlds() map[string]world { return except(worlds(), "1 member") }

// only and except part a table of cases by their names: each is in one of them.
func only[T any](cases map[string]T, names ...string) map[string]T {
	some := maps.Clone(cases)
	maps.DeleteFunc(some, func(name string, _ T) bool { return !slices.Contains(names, name) })
	return some
}

func except[T any](cases map[string]T, names ...string) map[string]T {
	rest := maps.Clone(cases)
	maps.DeleteFunc(rest, func(name string, _ T) bool { return slices.Contains(names, name) })
	return rest
}

// place is a running world.
type place struct {
	world
	*servertest.Cluster
	Client *clientv3.Client // etcd's own
	KVD    *cluster.Client  // kvd's
}

// build starts a world. Nothing here asserts what survives a power cut, so the
// servers need not wait for the disk.
func (w world) build(t *testing.T, args ...string) *place {
	t.Helper()
	o := servertest.Options{Options: local.Options{
		Members: w.members, QuotaBytes: w.quota, Command: local.Command{Path: w.server}, Args: append([]string{"--unsafe-no-fsync"}, args...)}}
	if w.secure {
		o.TLS = servertest.NewCerts(t).MutualTLS()
	}
	p := &place{world: w, Cluster: servertest.Start(t, o)}
	if w.secure || w.auth {
		p.EnableAuth(t)
	}
	p.Client, p.KVD = p.Cluster.Client(t), p.connect(t)
	return p
}

// connect opens kvd's client with the world's credentials.
func (p *place) connect(t *testing.T) *cluster.Client {
	t.Helper()
	cfg := cluster.Config{Endpoints: p.Endpoints(), Source: "test"}
	if tls := p.TLS(); tls != nil {
		cfg.CACert, cfg.Cert, cfg.Key = tls.CA, tls.ClientCert, tls.ClientKey
	}
	if p.secure || p.auth {
		cfg.User, cfg.Password = "root", servertest.RootPassword
	}
	c, err := cluster.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (p *place) view(t *testing.T) cluster.View {
	t.Helper()
	v, err := p.KVD.View(servertest.Context(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (p *place) key(i int) string { return fmt.Sprintf(p.keyFmt, i) }

// writers is how many requests the tests keep under way, so that one fsync
// serves many of them.
const writers = 24

// each calls do for 0, 1, 2, … until one returns false or n are done, with many
// under way at once, and returns how many returned true.
func each(n int, do func(i int) bool) int {
	var next, ok atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for !stop.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if !do(i) {
					stop.Store(true)
					return
				}
				ok.Add(1)
			}
		})
	}
	wg.Wait()
	return int(ok.Load())
}

// fill writes values of size bytes over so many keys until etcd refuses, and
// returns how many were taken.
func (p *place) fill(t *testing.T, keys, size int) int {
	t.Helper()
	ctx := servertest.Context(t, time.Minute)
	value := make([]byte, size)
	_, _ = rand.Read(value)
	n := each(1<<30, func(i int) bool {
		_, err := p.Client.Put(ctx, p.key(i%keys), string(value))
		if err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("put %d: %v", i, err)
		}
		return err == nil
	})
	p.committed(t)
	return n
}

// put writes so many values over so many keys.
func (p *place) put(t *testing.T, n, keys, size int) {
	t.Helper()
	ctx := servertest.Context(t, time.Minute)
	value := make([]byte, size)
	_, _ = rand.Read(value)
	each(n, func(i int) bool {
		_, err := p.Client.Put(ctx, p.key(i%keys), string(value))
		if err != nil {
			t.Errorf("put %d: %v", i, err)
		}
		return err == nil
	})
}

// remove deletes the first n keys.
func (p *place) remove(t *testing.T, n int) {
	t.Helper()
	ctx := servertest.Context(t, time.Minute)
	each(n, func(i int) bool {
		_, err := p.Client.Delete(ctx, p.key(i))
		if err != nil {
			t.Errorf("delete %d: %v", i, err)
		}
		return err == nil
	})
}

// committed waits until the backend has committed what was written, which is
// when sizes are refreshed.
func (p *place) committed(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(300 * time.Millisecond):
	case <-t.Context().Done():
	}
}

// head returns the newest revision.
func (p *place) head(t *testing.T) int64 {
	t.Helper()
	r, err := p.Client.Get(servertest.Context(t, 10*time.Second), "\x00absent")
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

// count returns how many keys have a prefix. A put that etcd refused for want of
// space may have been applied all the same, so that counting answers is not enough.
func (p *place) count(t *testing.T, prefix string) int {
	t.Helper()
	r, err := p.Client.Get(servertest.Context(t, 10*time.Second), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return int(r.Count)
}

func (p *place) defragAll(t *testing.T) {
	t.Helper()
	for _, ep := range p.Endpoints() {
		if _, err := p.Client.Defragment(servertest.Context(t, time.Minute), ep); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *place) compact(t *testing.T, rev int64) {
	t.Helper()
	if _, err := p.Client.Compact(servertest.Context(t, time.Minute), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}

// tryPut is one write; its error is the point.
func (p *place) tryPut(ctx context.Context, size int) error {
	_, err := p.Client.Put(ctx, p.key(0), string(make([]byte, size)))
	return err
}
