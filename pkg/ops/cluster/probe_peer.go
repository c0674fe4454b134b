package cluster

import (
	"context"
	"crypto/tls"
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
