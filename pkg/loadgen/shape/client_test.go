package shape

import (
	"bytes"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"

	"kvd/pkg/server/servertest"
)

// TestPages compares pages, which the recorded API server had no use for, with
// what the API server's own client sends for them (store.go, pagedChunks), and
// their streams with the same message to the other method (streamChunks).
func TestPages(t *testing.T) {
	c := servertest.Start(t, servertest.Options{})
	ctx := servertest.Context(t, time.Minute)
	rec := newRecorder(t, strings.TrimPrefix(c.Endpoint(0), "http://"))
	client, err := kubernetes.New(clientv3.Config{Endpoints: []string{"http://" + rec.address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	const prefix = "/registry/pods/"
	for _, page := range []struct {
		after           string
		limit, revision int64
	}{{"", 0, 0}, {"", 500, 0}, {prefix + "default/a", 500, 1}, {prefix + "default/a", 0, 1}} {
		from, next := prefix, ""
		if page.after != "" {
			from, next = Next(page.after), page.after+"\x00"
		}
		opts := kubernetes.ListOptions{Revision: page.revision, Limit: page.limit, Continue: next}
		if _, err := client.Kubernetes.List(ctx, prefix, opts); err != nil {
			t.Fatal(err)
		}
		want := <-rec.seen
		if _, err := Page(prefix, from, page.limit, page.revision).Send(ctx, client.Client); err != nil {
			t.Fatal(err)
		}
		if got := <-rec.seen; got.method != want.method || !bytes.Equal(got.raw, want.raw) || !equalMetadata(got.md, want.md) {
			t.Errorf("%+v: sent %s %x, the API server's client sends %s %x", page, got.method, got.raw, want.method, want.raw)
		}
		err := Page(prefix, from, page.limit, page.revision).SendStream(ctx, client.Client, func(*pb.RangeResponse) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if got := <-rec.seen; got.method != "/etcdserverpb.KV/RangeStream" || !bytes.Equal(got.raw, want.raw) {
			t.Errorf("%+v: sent %s %x, want the stream of %x", page, got.method, got.raw, want.raw)
		}
	}
}
