package diagnose

import (
	"context"

	"kvd/pkg/ops/cluster"
)

// tokens has members look at each other's tokens, where a user logs in. That goes through
// the log, so that it is not tried without a leader.
func (c *collector) tokens(ctx context.Context, v cluster.View) {
	if v.Leader == 0 || v.QuorumLost() {
		return
	}
	t, tried := c.client.TryTokens(ctx, v)
	if !tried {
		if c.in.Auth != nil && c.in.Auth.Enabled && len(v.Voters()) > 1 {
			c.leftOut(NeedTokens, "nobody logged in, so that members have made no token", "--user USER, with its password")
		}
		return
	}
	c.asked("Authenticate, at each voter", len(t.Made))
	c.asked("Range of one key, without the quorum, with another member's token", len(t.Used))
	for _, m := range t.Made {
		if m.Err != nil {
			c.missErr(NeedTokens, name(m.Member), m.Err)
		}
	}
	for _, u := range t.Used {
		if u.Err != nil {
			c.missErr(NeedTokens, name(u.Taker), u.Err)
		}
	}
	c.in.Tokens = &t
}
