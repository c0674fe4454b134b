package cluster

import (
	"context"

	"google.golang.org/grpc"
)

// renewedStream is an answer in pieces to one request (Snapshot, RangeStream). Where it
// is refused for its token before the first piece, it is asked for again with a new one.
type renewedStream struct {
	grpc.ClientStream
	c    *Client
	p    *pinned
	ctx  context.Context
	open func() (grpc.ClientStream, error)
	used string // the token that it was asked for with

	request any
	begun   bool // something has come
}

func (s *renewedStream) SendMsg(request any) error {
	s.request = request
	return s.ClientStream.SendMsg(request)
}

func (s *renewedStream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	if s.begun || !staleToken(s.used, err) {
		s.begun = true
		return err
	}
	s.begun = true
	if err := s.c.loginAnywhere(s.ctx, "log in", s.p, &s.used, unbounded); err != nil {
		return err
	}
	if s.ClientStream, err = s.again(); err != nil {
		return err
	}
	return s.ClientStream.RecvMsg(msg)
}

// again asks once more. The stream that was refused has ended by itself.
func (s *renewedStream) again() (grpc.ClientStream, error) {
	stream, err := s.open()
	if err != nil {
		return s.ClientStream, err
	}
	if err := stream.SendMsg(s.request); err != nil {
		return stream, err
	}
	return stream, stream.CloseSend()
}
