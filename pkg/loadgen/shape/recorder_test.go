package shape

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// sent is a request as it was on the wire.
type sent struct {
	method string
	md     metadata.MD
	raw    []byte
}

// recorder stands between a client and an etcd server: it hands on whatever comes
// from either side, byte by byte, and notes what comes from the client.
type recorder struct {
	address string
	seen    chan sent
	server  *grpc.ClientConn
}

func newRecorder(t *testing.T, endpoint string) *recorder {
	t.Helper()
	server, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{address: listener.Addr().String(), seen: make(chan sent, 1000), server: server}
	front := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(r.pass))
	go func() { _ = front.Serve(listener) }() // ends with Stop
	t.Cleanup(func() {
		front.Stop()
		_ = server.Close()
	})
	return r
}

// pass is every call: a stream in both directions, of which a unary call is one
// with a message each way.
func (r *recorder) pass(_ any, client grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(client)
	md, _ := metadata.FromIncomingContext(client.Context())
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(client.Context(), forwarded(md)))
	defer cancel()
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	server, err := r.server.NewStream(ctx, desc, method, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return err
	}
	go func() {
		for {
			var b []byte
			if err := client.RecvMsg(&b); err != nil {
				if errors.Is(err, io.EOF) {
					_ = server.CloseSend() // the other direction reports what becomes of it
				}
				return
			}
			r.seen <- sent{method, md, b}
			if server.SendMsg(&b) != nil {
				return
			}
		}
	}()
	for {
		var b []byte
		if err := server.RecvMsg(&b); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := client.SendMsg(&b); err != nil {
			return err
		}
	}
}

// forwarded leaves out what gRPC adds to each connection itself.
func forwarded(md metadata.MD) metadata.MD {
	out := md.Copy()
	for _, k := range []string{":authority", "content-type", "user-agent", "grpc-accept-encoding"} {
		delete(out, k)
	}
	return out
}

// rawCodec hands messages through as they are.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, errors.New("not raw")
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return errors.New("not raw")
	}
	*b = data.Materialize()
	return nil
}
