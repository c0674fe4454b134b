package cluster

import (
	"errors"
	"io"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"kvd/pkg/ops/fault"
)

// A stream that is not whole never ends as one that is.
func TestSnapshotStream(t *testing.T) {
	c, err := Connect(Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // nothing was sent
	mc, err := c.At("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	pages := func(n int, left uint64) *pb.SnapshotResponse {
		return &pb.SnapshotResponse{Blob: make([]byte, n), RemainingBytes: left}
	}
	for name, tc := range map[string]struct {
		sent  []*pb.SnapshotResponse
		err   error
		cause string // empty: whole
	}{
		"whole":                    {sent: []*pb.SnapshotResponse{pages(100, 50), pages(50, 0), pages(32, 0)}, err: io.EOF},
		"no hash":                  {sent: []*pb.SnapshotResponse{pages(100, 50), pages(50, 0)}, err: io.EOF, cause: CauseStreamCut},
		"half":                     {sent: []*pb.SnapshotResponse{pages(100, 50)}, err: io.EOF, cause: CauseStreamCut},
		"the connection is lost":   {sent: []*pb.SnapshotResponse{pages(100, 50)}, err: io.ErrUnexpectedEOF, cause: CauseStreamCut},
		"more than was announced":  {sent: []*pb.SnapshotResponse{pages(100, 50), pages(50, 0), pages(32, 0), pages(1, 0)}, err: io.EOF, cause: CauseStreamLonger},
		"a file that is not read":  {sent: []*pb.SnapshotResponse{pages(100, 50), pages(0, 50), pages(0, 50)}, err: io.EOF, cause: CauseMemberDisk},
		"a piece of nothing, last": {sent: []*pb.SnapshotResponse{pages(150, 0), pages(0, 0), pages(32, 0)}, err: io.EOF},
	} {
		rest := tc.sent[1:]
		s := &SnapshotStream{Size: 182, m: mc, ctx: t.Context(), first: tc.sent[0], recv: func() (*pb.SnapshotResponse, error) {
			if len(rest) == 0 {
				return nil, tc.err
			}
			r := rest[0]
			rest = rest[1:]
			return r, nil
		}}
		got := 0
		var end error
		for end == nil {
			var b []byte
			b, end = s.Next()
			got += len(b)
		}
		if whole := errors.Is(end, io.EOF); whole != (tc.cause == "") || whole && got != 182 || !whole && (fault.CauseOf(end) != tc.cause || fault.KindOf(end) != fault.Unavailable) {
			t.Errorf("%s: %d bytes, %v", name, got, end)
		}
	}
}
