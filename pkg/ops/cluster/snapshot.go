package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"kvd/pkg/ops/fault"
)

// Causes of a snapshot stream that did not end well.
const (
	CauseStreamCut    = "stream_cut"    // it ended before its end
	CauseMemberDisk   = "member_disk"   // the member cannot read its own file
	CauseStreamLonger = "stream_longer" // it sends more than it said
)

// SnapshotStream is a member's database on its way, from one read transaction:
// all pages, then a SHA-256 of them. It is never resumed, at this member or
// another. It is for one goroutine, but for Close.
type SnapshotStream struct {
	// Size is how many bytes come in all, with the hash.
	Size int64
	// StorageVersion is that of the file; empty before etcd 3.6.
	StorageVersion string

	m     *MemberClient
	ctx   context.Context
	close context.CancelFunc
	recv  func() (*pb.SnapshotResponse, error)
	first *pb.SnapshotResponse
	got   int64
}

// Snapshot asks the member for its database, and is back when the first piece is
// there: until then nothing was read, and another member can be asked instead. The
// stream ends with ctx or Close. Only root may do this where authentication is on.
//
// etcd's own client hides how much there is to come, without which a stream that
// is cut off at a page cannot be told from a whole one.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, etcdserver/api/v3rpc/maintenance.go, Snapshot.
func (m *MemberClient) Snapshot(ctx context.Context) (*SnapshotStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &SnapshotStream{m: m, ctx: ctx, close: cancel}
	err := m.c.call(ctx, "snapshot", m.p, unbounded, func(context.Context) error { // not its context, which ends with the call
		stream, err := pb.NewMaintenanceClient(m.p.etcd.ActiveConnection()).Snapshot(ctx, &pb.SnapshotRequest{})
		if err != nil {
			return err
		}
		s.recv = stream.Recv
		s.first, err = stream.Recv()
		return err
	})
	if errors.Is(err, io.EOF) {
		err = s.broken(CauseStreamCut, "the member sent nothing")
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s.Size = int64(len(s.first.Blob)) + int64(s.first.RemainingBytes) + sha256.Size //nolint:gosec // a size of a file
	s.StorageVersion = s.first.Version
	return s, nil
}

// Close ends the stream, so that the member need not keep its pages any longer. It
// may be called while Next waits, and more than once.
func (s *SnapshotStream) Close() { s.close() }

// Next returns the next piece, which is the caller's; io.EOF when all Size bytes
// were returned. Whether the hash fits is for the caller to see.
func (s *SnapshotStream) Next() ([]byte, error) {
	resp := s.first
	if s.first = nil; resp == nil {
		var err error
		if resp, err = s.recv(); err != nil {
			return nil, s.ended(err)
		}
	}
	s.got += int64(len(resp.Blob))
	switch {
	case s.got > s.Size:
		return nil, s.broken(CauseStreamLonger, fmt.Sprintf("the member announced %d bytes and sends more", s.Size))
	case len(resp.Blob) == 0 && resp.RemainingBytes > 0:
		// A server that fails to read its file goes on for ever with nothing.
		return nil, s.broken(CauseMemberDisk, fmt.Sprintf("the member cannot read its own file beyond byte %d", s.got))
	}
	return resp.Blob, nil
}

// ended makes of the end of the stream either io.EOF or what cut it off.
func (s *SnapshotStream) ended(err error) error {
	if errors.Is(err, io.EOF) {
		if s.got == s.Size {
			return io.EOF
		}
		return s.broken(CauseStreamCut, fmt.Sprintf("the stream ended after %d of %d bytes", s.got, s.Size))
	}
	e := s.broken(CauseStreamCut, fmt.Sprintf("the stream was cut off after %d of %d bytes", s.got, s.Size))
	e.Err = s.m.Explain(s.ctx, "", err)
	if fault.CauseOf(e.Err) == CauseNotEtcd { // what has sent this is etcd: its process is about to be gone
		e.Err = Classify("", "", err)
	}
	if kind := fault.KindOf(e.Err); kind == fault.Interrupted || kind == fault.Denied {
		e.Kind, e.Hint = kind, fault.HintOf(e.Err)
	}
	return e
}

func (s *SnapshotStream) broken(cause, msg string) *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Cause: cause, Op: "snapshot", Subject: s.m.Label(), Msg: msg,
		Hint: "run the command again: a snapshot is taken in one stream, never put together from two"}
}
