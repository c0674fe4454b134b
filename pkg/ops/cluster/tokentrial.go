package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// SimpleToken is the kind of a token that members keep: it is made by a proposal, so that
// all of them know it (assignSimpleTokenToUser in server/auth/simple_token.go).
const SimpleToken = "simple"

// TokenTrial is what members make of the tokens that others have made. A signed token is
// made by the member that is asked, with its own key, and looked at by each member with
// its own (server/auth/jwt.go): nothing of it goes through the log.
type TokenTrial struct {
	Made []MadeToken
	Used []UsedToken
}

// MadeToken is one member's token, without the token itself.
type MadeToken struct {
	Member Member
	Kind   string // SimpleToken, or how it is signed: "RS256"
	Err    error  // it made none
}

// UsedToken is a token of one member that was shown to another.
type UsedToken struct {
	Maker, Taker Member
	Refused      bool  // "invalid auth token"
	Err          error // nothing was found out
}

// TryTokens has each voter that is there make a token for our user, and shows it to the
// others with a serializable count of one key that need not be there. Two members that
// make simple tokens are not tried: one that lags waits for them, and none refuses them.
// It costs one login for each voter (a round of bcrypt and a proposal), all at the same
// time, and returns false where we have no user, or none is wanted.
func (c *Client) TryTokens(ctx context.Context, v View) (TokenTrial, bool) {
	var t TokenTrial
	if !c.auth.wanted() || c.auth.get() == "" {
		return t, false
	}
	there := v.filter(func(m Member) bool { return m.Alive() && m.Endpoint != "" })
	if len(there) < 2 {
		return t, false
	}
	tokens := map[uint64]string{}
	kinds := map[uint64]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, m := range there {
		if m.Learner { // which takes no logins
			continue
		}
		wg.Go(func() {
			token, err := c.makeToken(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			tokens[m.ID], kinds[m.ID] = token, kindOf(token)
			t.Made = append(t.Made, MadeToken{m, kindOf(token), err})
		})
	}
	wg.Wait()
	slices.SortFunc(t.Made, func(a, b MadeToken) int { return cmp.Compare(a.Member.Label(), b.Member.Label()) })
	for _, made := range t.Made {
		for _, taker := range there {
			bySimple := made.Kind == SimpleToken && (taker.Learner || kinds[taker.ID] == SimpleToken)
			if made.Err == nil && taker.ID != made.Member.ID && !bySimple {
				t.Used = append(t.Used, UsedToken{Maker: made.Member, Taker: taker})
			}
		}
	}
	for i := range t.Used {
		u := &t.Used[i]
		wg.Go(func() { u.Refused, u.Err = c.showToken(ctx, u.Taker, tokens[u.Maker.ID]) })
	}
	wg.Wait()
	return t, true
}

// makeToken has a member make a token, beside the one that all requests have.
func (c *Client) makeToken(ctx context.Context, m Member) (string, error) {
	const op = "log in"
	p, err := c.pin(m.Endpoint)
	if err == nil {
		err = c.ready(ctx, op, p)
	}
	if err != nil {
		return "", err
	}
	rctx, cancel := context.WithTimeout(ctx, c.cfg.CommandTimeout)
	defer cancel()
	resp, err := p.etcd.Authenticate(rctx, c.auth.user, c.auth.password)
	if err != nil {
		return "", c.explain(ctx, op, p.endpoint, err)
	}
	return resp.Token, nil
}

// showToken reports whether a member refuses a token. It looks at it before it looks at
// what the user may read (doSerialize in server/etcdserver/v3_server.go).
func (c *Client) showToken(ctx context.Context, m Member, token string) (refused bool, err error) {
	const op = "show a token"
	p, err := c.pin(m.Endpoint)
	if err == nil {
		err = c.ready(ctx, op, p)
	}
	if err != nil {
		return false, err
	}
	rctx, cancel := context.WithTimeout(context.WithValue(ctx, shownToken{}, token), c.cfg.MemberTimeout)
	defer cancel()
	_, err = p.etcd.Get(rctx, "kvd", clientv3.WithSerializable(), clientv3.WithCountOnly())
	switch said := ofServer(err); {
	case errors.Is(said, rpctypes.ErrInvalidAuthToken):
		return true, nil
	case err == nil, errors.Is(said, rpctypes.ErrPermissionDenied):
		return false, nil
	}
	return false, c.explain(ctx, op, p.endpoint, err)
}

// shownToken is the key under which a request's context has a token of its own.
type shownToken struct{}

// tokenShown is the token that a request is to have instead of the one there is.
func tokenShown(ctx context.Context) (string, bool) {
	t, ok := ctx.Value(shownToken{}).(string)
	return t, ok
}

// kindOf tells how a token is made: a signed one has three parts, of which the first names
// the method (RFC 7515).
func kindOf(token string) string {
	parts := strings.Split(token, ".")
	if token == "" {
		return ""
	}
	var head struct{ Alg string }
	if raw, err := base64.RawURLEncoding.DecodeString(parts[0]); len(parts) == 3 && err == nil && json.Unmarshal(raw, &head) == nil {
		return head.Alg
	}
	return SimpleToken
}
