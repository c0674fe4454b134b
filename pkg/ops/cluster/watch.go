package cluster

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"

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
	create *pb.WatchCreateRequest

	mu     sync.Mutex
	stream pb.Watch_WatchClient
}

// Watch begins a watch at the member. It ends with ctx.
func (m *MemberClient) Watch(ctx context.Context, create *pb.WatchCreateRequest) (*WatchStream, error) {
	if err := m.Connect(ctx); err != nil {
		return nil, err
	}
	create.Fragment = true // else one message may have a thousand revisions
	w := &WatchStream{m: m, ctx: ctx, create: create}
	if err := w.open(); err != nil {
		return nil, m.Explain(ctx, "watch", err)
	}
	return w, nil
}

func (w *WatchStream) open() error {
	stream, err := pb.NewWatchClient(w.m.p.etcd.ActiveConnection()).Watch(w.ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.stream = stream
	w.mu.Unlock()
	return w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: w.create}})
}

// send is not told why a stream has ended: that is for Recv.
func (w *WatchStream) send(r *pb.WatchRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.stream.Send(r); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// Recv waits for the next message. One with neither events nor Created tells in its
// header how far the watch has come.
func (w *WatchStream) Recv() (*pb.WatchResponse, error) {
	resp, err := w.stream.Recv()
	if errors.Is(err, newToken()) { // nothing has come: it was refused at its beginning
		if err = w.open(); err == nil {
			resp, err = w.stream.Recv()
		}
	}
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
	if known := refused(reason); known != nil {
		return known
	}
	return errors.New("the member ended the watch: " + reason)
}

// refused is the error that a server gives as a text of its own; nil if it is none of
// these. Into a watch that it does not begin it writes that of its gRPC error, which etcd's
// own client hands on (watch.go, addSubstream). A snapshot, a defragmentation and a hash
// are refused by servers before 3.6 in the words of its store of users
// (authMaintenanceServer in v3rpc/maintenance.go; server/v3/auth/store.go).
func refused(reason string) error {
	for _, known := range []struct {
		is  error
		own string
	}{
		{rpctypes.ErrGRPCPermissionDenied, "auth: permission denied"},
		{rpctypes.ErrGRPCInvalidAuthToken, "auth: invalid auth token"},
		{rpctypes.ErrGRPCAuthOldRevision, "auth: revision in header is old"},
		{rpctypes.ErrGRPCUserEmpty, "auth: user name is empty"},
	} {
		if reason == known.is.Error() || reason == known.own {
			return rpctypes.Error(known.is)
		}
	}
	return nil
}

// RequestProgress asks how far the watch has come. It may be called while Recv
// waits.
func (w *WatchStream) RequestProgress() error {
	err := w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	if err != nil {
		return w.m.Explain(w.ctx, "watch", err)
	}
	return nil
}
