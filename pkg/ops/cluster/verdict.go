package cluster

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// verdictMargin is how much of its time a request must have left for a deadline to be the
// server's own, in case the two clocks differ a little.
const verdictMargin = 200 * time.Millisecond

// verdictInTime gives a server's verdict of 7 s the name that etcd has for it. Where no
// member leads, a proposal is not taken at all, and etcd passes on that the time for it is
// over (processInternalRaftRequestOnce in server/etcdserver/v3_server.go), which looks as
// if our own time were: etcd's client tries again with what is left of that, in vain, and
// the verdict is lost (isContextError in client/v3/retry_interceptor.go).
func verdictInTime(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if status.Code(err) != codes.DeadlineExceeded || ctx.Err() != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < verdictMargin {
		return err
	}
	return rpctypes.ErrGRPCTimeout
}
