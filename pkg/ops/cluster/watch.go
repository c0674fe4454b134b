package cluster

import (
	"context"
	"errors"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// WatchStream is a watch whose messages are taken one at a time. What is not taken
// stays with the member as soon as the connection's window is full, while etcd's
// own client queues events in this process without limit.
type WatchStream struct {
	m      *MemberClient
	ctx    context.Context
	stream pb.Watch_WatchClient
}

// Watch begins a watch at the member. It ends with ctx.
func (m *MemberClient) Watch(ctx context.Context, create *pb.WatchCreateRequest) (*WatchStream, error) {
	if err := m.Connect(ctx); err != nil {
		return nil, err
	}
	create.Fragment = true // else one message may have a thousand revisions
	stream, err := pb.NewWatchClient(m.p.etcd.ActiveConnection()).Watch(ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err == nil {
		err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
	}
	if err != nil {
		return nil, m.Explain(ctx, "watch", err)
	}
	return &WatchStream{m: m, ctx: ctx, stream: stream}, nil
}

// Recv waits for the next message. One with neither events nor Created tells in its
// header how far the watch has come.
func (w *WatchStream) Recv() (*pb.WatchResponse, error) {
	resp, err := w.stream.Recv()
	switch {
	case err != nil:
		return nil, w.m.Explain(w.ctx, "watch", err)
	case resp.CompactRevision != 0:
		return nil, w.m.Explain(w.ctx, "watch", rpctypes.ErrCompacted)
	case resp.Canceled:
		return nil, w.m.Explain(w.ctx, "watch", refusal(resp.CancelReason))
	}
	return resp, nil
}

// refusal is the error that a server writes as text into a watch that it ends.
func refusal(reason string) error {
	for _, known := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCUserEmpty} {
		if reason == known.Error() {
			return rpctypes.Error(known)
		}
	}
	return errors.New("the member ended the watch: " + reason)
}

// RequestProgress asks how far the watch has come. It may be called while Recv
// waits.
func (w *WatchStream) RequestProgress() error {
	err := w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	if err != nil {
		return w.m.Explain(w.ctx, "watch", err)
	}
	return nil
}
