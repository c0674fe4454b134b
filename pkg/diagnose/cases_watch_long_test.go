//go:build long

package diagnose_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"kvd/pkg/server/servertest"
)

// watchers opens one stream with so many watchers of a prefix, and reads it only
// where told to.
func watchers(ctx context.Context, t *testing.T, c *servertest.Cluster, n int, read bool) {
	t.Helper()
	conn, err := grpc.NewClient(c.Endpoint(0)[len("http://"):], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := pb.NewWatchClient(conn).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("/shared/"), RangeEnd: []byte("/shared0"), WatchId: int64(i + 1)}}})
		if err == nil {
			_, err = stream.Recv() // that it was made
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !read {
		return
	}
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
}

// Hundreds of watchers on one stream whose client does not read: they lag, and are
// named with how many share it. As many that are read, or on streams of their own and
// not read, are another thing.
func TestCaseStarvedWatchers(t *testing.T) {
	t.Parallel()
	c := begin(t, 1, 0)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	watchers(ctx, t, c, 400, true)
	put(t, c.Client(t), "/shared/k", 300, 10, 1000)
	waitFor(t, func() bool { return metric(t, c, "etcd_debugging_mvcc_slow_watcher_total") == 0 })
	belongs(t, look(t, connect(t, c)))

	bad, hangUp := context.WithCancel(ctx)
	watchers(bad, t, c, 400, false)
	put(t, c.Client(t), "/shared/k", 600, 10, 4000)
	r := look(t, connect(t, c))
	belongs(t, r, "KVD-WATCH-001 warning", "KVD-WATCH-002 warning")
	f := finding(t, r, "KVD-WATCH-002")
	if evidence(t, f, "watchers").Value != 800 || evidence(t, f, "streams").Value != 2 || evidence(t, f, "slow watchers, now").Value < 100 {
		t.Errorf("%+v", f.Evidence)
	}
	if e := finding(t, r, "KVD-WATCH-001").ExplainedBy; fmt.Sprint(e) != "[KVD-WATCH-002]" {
		t.Errorf("explained by %q", e)
	}
	hangUp()
	waitFor(t, func() bool { return !look(t, connect(t, c)).Has("KVD-WATCH-001") })
	good := look(t, connect(t, c))
	belongs(t, good)
	remedied(t, "KVD-WATCH-002", r, good, "end the client that does not read")
	remedied(t, "KVD-WATCH-001", r, good, "end the client that does not read")

	alone, leaveAlone := context.WithTimeout(ctx, 2*time.Minute)
	defer leaveAlone()
	for range 30 {
		watchers(alone, t, c, 1, false)
	}
	put(t, c.Client(t), "/shared/k", 1500, 10, 4000)
	lagging := look(t, connect(t, c))
	if lagging.Has("KVD-WATCH-002") && evidence(t, finding(t, lagging, "KVD-WATCH-002"), "watchers on a stream, in the mean").Value < 128 {
		t.Errorf("watchers on streams of their own share none: %q", got(lagging))
	}
}
