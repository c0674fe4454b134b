package cluster

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/credentials"

	"kvd/pkg/ops/fault"
)

// tokenSource holds one authentication token for all members. A token is made
// by a proposal that all of them apply, and costs the server a bcrypt round, so
// each member asking for its own would be a load without a use. It is the
// connections' credentials.
type tokenSource struct {
	user, password string

	mu     sync.RWMutex
	done   bool // a server was asked; an empty token then means that it wants none
	token  string
	since  time.Time // when it was made
	logins []*login  // under way, the oldest first, one for an endpoint
}

// login is one request for a token that is under way.
type login struct {
	endpoint string
	begun    time.Time
	over     chan struct{} // closed when it has ended, or when a token came from elsewhere
	closed   bool

	failure *fault.Error // set before over is closed; nil too if the end says nothing to others
}

func (t *tokenSource) wanted() bool { return t.user != "" }

func (t *tokenSource) get() string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.token
}

// settled reports that there is a token other than stale, or that none is wanted.
func (t *tokenSource) settled(stale *string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.done && (stale == nil || t.token != *stale)
}

// set has a token, and lets go everybody who waits for one.
func (t *tokenSource) set(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done, t.token, t.since = true, token, time.Now()
	for _, l := range t.logins {
		l.end()
	}
}

// join returns the login to wait for and for how long at most, or with 0 a new one that
// is the caller's own: it asks its endpoint, and leaves.
func (t *tokenSource) join(endpoint string) (l *login, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.logins {
		if l.closed {
			continue // a token came from elsewhere, and is none of use any more
		}
		if l.endpoint == endpoint {
			return l, forever
		}
		if left := loginPatience - time.Since(l.begun); left > 0 {
			return l, left
		}
	}
	l = &login{endpoint: endpoint, begun: time.Now(), over: make(chan struct{})}
	t.logins = append(t.logins, l)
	return l, 0
}

// leave ends the caller's own login. What it failed for is for those who wait, too,
// unless the caller gave it up.
func (t *tokenSource) leave(l *login, e *fault.Error, gaveUp bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !l.closed && !gaveUp {
		l.failure = e
	}
	l.end()
	for i := range t.logins {
		if t.logins[i] == l {
			t.logins = append(t.logins[:i:i], t.logins[i+1:]...)
			break
		}
	}
}

func (l *login) end() {
	if !l.closed {
		l.closed = true
		close(l.over)
	}
}

// forever is longer than any login takes, which has a timeout of its own.
const forever = time.Hour

// await waits for the end of a login, for a while at most. The error is ctx's.
func (l *login) await(ctx context.Context, atMost time.Duration) error {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-l.over:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// verdictFor is what a login that has failed says of one at an endpoint: the same there;
// of another one that the user is not let in, which any member would say.
func (l *login) verdictFor(endpoint string) *fault.Error {
	select {
	case <-l.over:
	default:
		return nil
	}
	if l.failure != nil && (l.endpoint == endpoint || l.failure.Kind == fault.Denied) {
		return l.failure
	}
	return nil
}

// age is how long ago the token was made.
func (t *tokenSource) age() time.Duration {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return time.Since(t.since)
}

// GetRequestMetadata puts the token on a request, but for one that asks for a token:
// etcd 3.4 refuses that for an old one, as it does any other.
func (t *tokenSource) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if info, ok := credentials.RequestInfoFromContext(ctx); ok && info.Method == pb.Auth_Authenticate_FullMethodName {
		return nil, nil
	}
	if tok, ok := tokenShown(ctx); ok {
		return map[string]string{rpctypes.TokenFieldNameGRPC: tok}, nil
	}
	if tok := t.get(); tok != "" {
		return map[string]string{rpctypes.TokenFieldNameGRPC: tok}, nil
	}
	return nil, nil
}

// RequireTransportSecurity is false: etcd itself allows authentication without TLS.
func (t *tokenSource) RequireTransportSecurity() bool { return false }
