package cluster

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// peerAlive reports whether etcd answers on one of the peer URLs. A process that
// hangs or is stopped does not, while one that waits for its quorum serves its
// peers before its clients (startPeerListeners and serve in server/v3/embed).
// The peer port may want a certificate that we don't have; refusing us is an
// answer, too.
func (c *Client) peerAlive(ctx context.Context, urls []string) bool {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout/2)
	defer cancel()
	var alive atomic.Bool
	var wg sync.WaitGroup
	for _, u := range urls {
		t, bad := target(u)
		if bad != nil {
			continue
		}
		wg.Go(func() {
			p := &prober{tls: &tls.Config{InsecureSkipVerify: true}, cfg: c.cfg, t: t} //nolint:gosec // nothing is sent but the handshake
			if strings.HasPrefix(u, "https://") {
				if p.speaksTLS(ctx) {
					alive.Store(true)
				}
			} else if pg, err := p.page(ctx, p.plainConn, "/version"); err == nil && pg.status == 200 {
				alive.Store(true)
			}
		})
	}
	wg.Wait()
	return alive.Load()
}

// PeerCluster returns the ID of the cluster that the etcd at one of these peer URLs is a
// member of, false where none tells: nothing answers, or it wants a certificate of its
// peers that we don't have. It waits for half of DialTimeout for each.
func (c *Client) PeerCluster(ctx context.Context, urls []string) (uint64, bool) {
	for _, u := range urls {
		if id, ok := c.clusterAt(ctx, u); ok {
			return id, true
		}
	}
	return 0, false
}

// clusterAt asks for the list that a peer port has for those that join
// (peerMembersHandler in server/v3/etcdserver/api/etcdhttp/peer.go).
func (c *Client) clusterAt(ctx context.Context, rawURL string) (uint64, bool) {
	t, bad := target(rawURL)
	if bad != nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout/2)
	defer cancel()
	p := &prober{tls: c.tls, cfg: c.cfg, t: t}
	get := p.plainConn
	if strings.HasPrefix(rawURL, "https://") {
		cfg := p.config()
		cfg.InsecureSkipVerify = true // nothing is told there, and the answer is only compared
		get = func(ctx context.Context) (net.Conn, error) { return p.shaken(ctx, cfg) }
	}
	pg, err := p.page(ctx, get, "/members")
	if err != nil {
		return 0, false
	}
	id, err := ParseID(pg.of)
	return id, err == nil
}
