package cluster

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"kvd/pkg/ops/fault"
)

// tokenSource holds one authentication token for all members. A token is made
// by a proposal that all of them apply, and costs the server a bcrypt round, so
// each member asking for its own would be a load without a use. It is the
// connections' credentials.
type tokenSource struct {
	user, password string

	login    sync.Mutex   // held while a token is asked for; guards the next three
	done     bool         // the server was asked; an empty token then means that it wants none
	failure  *fault.Error // of the last attempt that failed
	failedAt time.Time

	mu    sync.RWMutex
	token string
	since time.Time // when it was made
}

func (t *tokenSource) wanted() bool { return t.user != "" }

func (t *tokenSource) get() string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.token
}

func (t *tokenSource) set(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token, t.since = token, time.Now()
}

// age is how long ago the token was made.
func (t *tokenSource) age() time.Duration {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return time.Since(t.since)
}

// GetRequestMetadata puts the token on a request.
func (t *tokenSource) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if tok := t.get(); tok != "" {
		return map[string]string{rpctypes.TokenFieldNameGRPC: tok}, nil
	}
	return nil, nil
}

// RequireTransportSecurity is false: etcd itself allows authentication without TLS.
func (t *tokenSource) RequireTransportSecurity() bool { return false }
