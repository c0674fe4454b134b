package cluster

import (
	"context"

	"kvd/pkg/ops/fault"
)

// verdict is what a probe found; err is nil where etcd answers as it should.
type verdict struct{ err *fault.Error }

// orConnectionLost is for a connection that did not come about although the
// probe finds nothing wrong.
func (v verdict) orConnectionLost() *fault.Error {
	if v.err != nil {
		return v.err
	}
	return &fault.Error{Kind: fault.Unavailable, Cause: CauseConnectionLost, Msg: "the connection broke, although the endpoint answers",
		Hint: "try again"}
}

func (c *Client) probe(_ context.Context, _ string) verdict { return verdict{} }
