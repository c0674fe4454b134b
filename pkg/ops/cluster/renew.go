package cluster

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// newToken ends a watch that was refused for the token it had: there is a new one by
// now. It is the code that etcd's own client takes for a lost connection, after which
// it begins its watches where they were (client/v3's watch.go, isHaltErr).
func newToken() error {
	return status.Error(codes.Unavailable, "the watch was refused for its token, and begins anew with another")
}

// renewWatch has a watch that is refused for its token log in. A watch is permitted
// when it is created and not looked at again (v3rpc's watch.go, isWatchPermitted), so
// one that stands goes on whatever happens to its token; one that begins, or begins
// anew after its member was restarted, may have a token that has expired or that
// nobody knows any more, or none because authentication was off when it was asked for.
func (c *Client) renewWatch(ctx context.Context, p *pinned, open func(context.Context) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	w := &renewedWatch{c: c, p: p, ctx: ctx, used: c.auth.get()}
	var err error
	ctx, w.end = context.WithCancel(ctx)
	if w.ClientStream, err = open(ctx); err != nil {
		w.end()
		return nil, err
	}
	return w, nil
}

// renewStream has streams that are refused for their token log in, as renewToken has
// requests with one answer.
func (c *Client) renewStream(p *pinned) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		open := func(ctx context.Context) (grpc.ClientStream, error) { return streamer(ctx, desc, cc, method, opts...) }
		switch {
		case !c.auth.wanted():
		case method == pb.Watch_Watch_FullMethodName:
			return c.renewWatch(ctx, p, open)
		case !desc.ClientStreams:
			s := &renewedStream{c: c, p: p, ctx: ctx, used: c.auth.get()}
			s.open = func() (grpc.ClientStream, error) { return open(ctx) }
			var err error
			s.ClientStream, err = s.open()
			return s, err
		}
		return open(ctx)
	}
}

// renewedWatch is a stream of watches with the token that it was opened with.
type renewedWatch struct {
	grpc.ClientStream
	c    *Client
	p    *pinned
	ctx  context.Context
	end  context.CancelFunc // of the stream, which whoever is told that it has failed would leave open
	used string
}

func (w *renewedWatch) RecvMsg(msg any) error {
	err := w.ClientStream.RecvMsg(msg)
	if resp, ok := msg.(*pb.WatchResponse); err == nil && ok && resp.Canceled && staleToken(w.used, refusal(resp.CancelReason)) {
		if err = w.c.loginAnywhere(w.ctx, "log in", w.p, &w.used, unbounded); err == nil {
			err = newToken()
		}
	}
	if err != nil {
		w.end()
	}
	return err
}
