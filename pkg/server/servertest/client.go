package servertest

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Client returns a client of the whole cluster, or of the given endpoints only.
// It uses the cluster's client certificate, and root's password once EnableAuth
// has been called. It is closed when the test ends.
func (c *Cluster) Client(tb testing.TB, endpoints ...string) *clientv3.Client {
	tb.Helper()
	return c.ClientAs(tb, c.user, c.password, endpoints...)
}

// ClientAs is Client with another user, or none.
func (c *Cluster) ClientAs(tb testing.TB, user, password string, endpoints ...string) *clientv3.Client {
	tb.Helper()
	if len(endpoints) == 0 {
		endpoints = c.Endpoints()
	}
	cfg := clientv3.Config{
		Endpoints: endpoints, DialTimeout: 5 * time.Second,
		Username: user, Password: password, Logger: zap.NewNop(),
	}
	if t := c.TLS(); t != nil {
		info := transport.TLSInfo{TrustedCAFile: t.CA, CertFile: t.ClientCert, KeyFile: t.ClientKey}
		var err error
		if cfg.TLS, err = info.ClientConfig(); err != nil {
			tb.Fatalf("client certificates: %v", err)
		}
	}
	cli, err := clientv3.New(cfg)
	if err != nil {
		tb.Fatalf("client: %v", err)
	}
	tb.Cleanup(func() { cli.Close() })
	return cli
}

// Leader returns the index of the member that leads, by the word of the first
// running member that knows of one.
func (c *Cluster) Leader(tb testing.TB) int {
	tb.Helper()
	ctx := Context(tb, 30*time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	clients := map[int]*clientv3.Client{} // one of each member, however often it is asked
	for {
		if i, ok := c.findLeader(ctx, tb, clients); ok {
			return i
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatal("no leader within 30 s")
		}
	}
}

func (c *Cluster) findLeader(ctx context.Context, tb testing.TB, clients map[int]*clientv3.Client) (int, bool) {
	tb.Helper()
	for i := range c.Len() {
		if !c.Running(i) {
			continue
		}
		if clients[i] == nil {
			clients[i] = c.Client(tb, c.Endpoint(i))
		}
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		st, err := clients[i].Status(ctx, c.Endpoint(i))
		cancel()
		if err == nil && st.Leader == st.Header.MemberId {
			return i, true
		}
	}
	return 0, false
}

// CheckEqualContent fails the test unless all running members hold the same key
// space: the same hash and the same compaction at the newest revision.
func (c *Cluster) CheckEqualContent(tb testing.TB) {
	tb.Helper()
	// The test's own context ends before its cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cli := c.Client(tb)
	head, err := cli.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		tb.Errorf("equal content: reading the revision: %v", err)
		return
	}
	type content struct {
		hash    uint32
		compact int64
	}
	var first content
	var firstName string
	for i := range c.Len() {
		if !c.Running(i) {
			continue
		}
		// A linearizable read brings the member up to date before it is hashed.
		one := c.Client(tb, c.Endpoint(i))
		if _, err := one.Get(ctx, "\x00", clientv3.WithCountOnly()); err != nil {
			tb.Errorf("equal content: %s: %v", c.Name(i), err)
			return
		}
		h, err := one.HashKV(ctx, c.Endpoint(i), head.Header.Revision)
		if err != nil {
			tb.Errorf("equal content: %s: %v", c.Name(i), err)
			return
		}
		got := content{h.Hash, h.CompactRevision}
		switch {
		case firstName == "":
			first, firstName = got, c.Name(i)
		case got != first:
			tb.Errorf("content differs at revision %d: %s has %+v, %s has %+v", head.Header.Revision, firstName, first, c.Name(i), got)
		}
	}
	if firstName == "" {
		tb.Error("equal content: no member runs")
	}
}
