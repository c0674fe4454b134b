package shape

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	_ "google.golang.org/grpc/encoding/gzip" // kvd's binary and kube-apiserver's have it, and name it in every request
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"kvd/pkg/server/servertest"
)

// call is a recorded call: see testdata/README.md.
type call struct {
	method   string
	conn     string
	md       metadata.MD
	requests [][]byte
	revision int64 // of the answer to a write
	lease    clientv3.LeaseID
}

func readCalls(t *testing.T) []*call {
	t.Helper()
	f, err := os.Open("testdata/apiserver-requests.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	byNumber := map[int]*call{}
	var all []*call
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct {
			K     string
			S     int
			M, C  string
			MD    metadata.MD
			Raw   []byte
			Rev   int64
			Lease clientv3.LeaseID `json:",string"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		c := byNumber[l.S]
		switch l.K {
		case "open":
			c = &call{method: "/etcdserverpb." + l.M, conn: l.C, md: l.MD}
			byNumber[l.S] = c
			all = append(all, c)
		case "req":
			c.requests = append(c.requests, l.Raw)
		case "resp":
			c.revision, c.lease = l.Rev, l.Lease
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return all
}

// replay does again, through this package, what the recorded API server did.
type replay struct {
	t       *testing.T
	ctx     context.Context
	rec     *recorder
	clients map[string]*clientv3.Client
	leases  map[clientv3.LeaseID]clientv3.LeaseID // of this run: recorded
	events  *Leases
	masters *Leases
	compact Compactor
	pending int64 // revision to compact at next
	counts  map[string]int
}

// TestEveryRecordedCall sends, through a recording proxy to a real server, each
// call that a real API server sent, made with this package from no more than the
// object, the revision and the resource that it was about; what arrives must be
// what was recorded: method, metadata and each byte of the message, but for the
// numbers of leases, which etcd draws.
func TestEveryRecordedCall(t *testing.T) {
	c := servertest.Start(t, servertest.Options{})
	r := &replay{t: t, ctx: servertest.Context(t, 2*time.Minute), rec: newRecorder(t, strings.TrimPrefix(c.Endpoint(0), "http://")),
		clients: map[string]*clientv3.Client{}, leases: map[clientv3.LeaseID]clientv3.LeaseID{}, counts: map[string]int{},
		events: NewLeases(EventTTL, LeaseReuse, LeaseObjects), masters: NewLeases(MasterLeaseTTL, LeaseReuse, LeaseObjects),
		compact: Compactor{Key: CompactKey}}
	calls := readCalls(t)
	var writes []*call
	for _, c := range calls { // whatever reads first, as it needs nothing to be there
		if c.revision != 0 || c.lease != 0 {
			writes = append(writes, c)
			continue
		}
		for _, raw := range c.requests {
			r.read(c, raw)
		}
	}
	slices.SortStableFunc(writes, func(a, b *call) int { return cmp.Compare(a.revision, b.revision) })
	for _, c := range writes {
		r.write(c, c.requests[0])
	}
	if n := len(r.rec.seen); n != 0 {
		t.Errorf("%d requests too many, the first: %+v", n, <-r.rec.seen)
	}
	want := map[string]int{"create": 211, "update": 51, "delete": 9, "claim": 3, "grant": 15, "compact": 2, "get": 394, "health": 10,
		"marker": 1, "count": 2, "stream": 71, "watch": 63, "watch marker": 1, "progress": 80, "status": 2}
	for what, n := range want {
		if r.counts[what] != n {
			t.Errorf("%s: %d calls compared, recorded %d", what, r.counts[what], n)
		}
	}
	if len(r.counts) != len(want) || len(r.clients) != 73 {
		t.Errorf("calls %v on %d connections", r.counts, len(r.clients))
	}
}

// client is the recorded connection's counterpart.
func (r *replay) client(c *call) *clientv3.Client {
	r.t.Helper()
	if r.clients[c.conn] == nil {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + r.rec.address}})
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { _ = client.Close() })
		r.clients[c.conn] = client
	}
	return r.clients[c.conn]
}

func (r *replay) read(c *call, raw []byte) {
	r.t.Helper()
	etcd := r.client(c)
	var err error
	what := ""
	switch strings.TrimPrefix(c.method, "/etcdserverpb.") {
	case "KV/Range":
		req := decode(r.t, raw, &pb.RangeRequest{})
		var read Read
		switch key := string(req.Key); {
		case req.CountOnly:
			what, read = "count", Count(key)
		case key == "/registry/health":
			what, read = "health", Health(key)
		case key == CompactKey:
			what, read = "marker", Read{Key: key}
		default:
			what, read = "get", Get(key)
		}
		_, err = read.Send(r.ctx, etcd)
	case "KV/RangeStream":
		prefix, ctx := string(decode(r.t, raw, &pb.RangeRequest{}).Key), WithLeader(r.ctx)
		if prefix == "/registry/masterleases/" { // a list; the others fill caches
			ctx = r.ctx
		}
		what, err = "stream", Page(prefix, prefix, 0, 0).SendStream(ctx, etcd, func(*pb.RangeResponse) error { return nil })
	case "Watch/Watch":
		what, err = r.watch(etcd, decode(r.t, raw, &pb.WatchRequest{}))
	case "Maintenance/Status":
		what = "status"
		_, err = etcd.Status(r.ctx, etcd.Endpoints()[0])
	}
	if err != nil {
		r.t.Fatalf("%s: %v", c.method, err)
	}
	r.compare(c, what, raw, nil)
}

func (r *replay) watch(etcd *clientv3.Client, req *pb.WatchRequest) (string, error) {
	create := req.GetCreateRequest()
	if create == nil {
		return "progress", etcd.RequestProgress(WithLeader(r.ctx))
	}
	key, what := string(create.Key), "watch"
	watch, ctx := Watch(key, create.StartRevision), WithLeader(r.ctx)
	if key == CompactKey { // once, after an API server's start (compact.go, runWatchLoop), which no load plays
		watch, ctx, what = Read{key, []clientv3.OpOption{clientv3.WithRev(create.StartRevision)}}, r.ctx, "watch marker"
	} else if alone := WatchRequest(key, create.StartRevision, true, true); !proto.Equal(alone, req) {
		r.t.Errorf("the watch request is %v, recorded %v", alone, req)
	}
	events := watch.Open(ctx, etcd)
	go func() {
		for range events { // ends with the context
		}
	}()
	return what, nil
}

func (r *replay) write(c *call, raw []byte) {
	r.t.Helper()
	etcd := r.client(c)
	switch strings.TrimPrefix(c.method, "/etcdserverpb.") {
	case "Lease/LeaseGrant":
		leases := r.masters
		if decode(r.t, raw, &pb.LeaseGrantRequest{}).TTL > MasterLeaseTTL {
			leases = r.events
		}
		granted := false
		_, err := leases.Take(time.Now(), func(ttl int64) (clientv3.LeaseID, error) {
			granted = true
			l, err := etcd.Grant(r.ctx, ttl)
			if err != nil {
				return 0, err
			}
			r.leases[l.ID] = c.lease
			return l.ID, nil
		})
		if err != nil || !granted {
			r.t.Fatalf("a lease was to be granted here: %v", err)
		}
		r.compare(c, "grant", raw, nil)
	case "KV/Compact":
		if _, err := etcd.Compact(r.ctx, r.pending); err != nil {
			r.t.Fatal(err)
		}
		r.compare(c, "compact", raw, nil)
	case "KV/Txn":
		r.txn(c, etcd, raw)
	}
}

func (r *replay) txn(c *call, etcd *clientv3.Client, raw []byte) {
	r.t.Helper()
	req := decode(r.t, raw, &pb.TxnRequest{})
	if len(req.Compare) != 1 || len(req.Success) != 1 || len(req.Failure) > 1 {
		r.t.Fatalf("unknown transaction %v", req)
	}
	put, compared := req.Success[0].GetRequestPut(), req.Compare[0]
	key, revision := string(compared.Key), compared.GetModRevision()
	var lease clientv3.LeaseID
	if put.GetLease() != 0 {
		lease = r.leaseFor(key, clientv3.LeaseID(put.Lease))
	}
	var what string
	var txn Txn
	switch {
	case key == CompactKey:
		what, txn = "claim", r.compact.Claim()
	case put == nil:
		what, txn = "delete", Delete(key, revision)
	case len(req.Failure) == 0:
		what, txn = "create", Create(key, string(put.Value), lease)
	default:
		what, txn = "update", Update(key, string(put.Value), revision, lease)
	}
	resp, err := txn.Commit(r.ctx, etcd)
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.Header.Revision != c.revision {
		r.t.Fatalf("%s %s ended at revision %d, recorded %d", what, key, resp.Header.Revision, c.revision)
	}
	if what == "claim" {
		r.pending = r.compact.Answered(resp)
	}
	r.compare(c, what, raw, func(b []byte) []byte {
		got := decode(r.t, b, &pb.TxnRequest{})
		if p := got.Success[0].GetRequestPut(); p != nil {
			p.Lease = int64(r.leases[clientv3.LeaseID(p.Lease)])
		}
		return encode(r.t, got)
	})
}

// leaseFor returns the lease of this run that stands for a recorded one. That of
// an Event must be the one that is given out again.
func (r *replay) leaseFor(key string, recorded clientv3.LeaseID) clientv3.LeaseID {
	r.t.Helper()
	if strings.HasPrefix(key, "/registry/events/") {
		id, err := r.events.Take(time.Now(), nil)
		if err != nil || r.leases[id] != recorded {
			r.t.Errorf("%s: lease %x stands for %x, recorded %x: %v", key, id, r.leases[id], recorded, err)
		}
		return id
	}
	for id, was := range r.leases {
		if was == recorded {
			return id
		}
	}
	r.t.Fatalf("%s: lease %x was not granted", key, recorded)
	return 0
}

// compare takes what the proxy saw of a call.
func (r *replay) compare(c *call, what string, want []byte, normalize func([]byte) []byte) {
	r.t.Helper()
	select {
	case got := <-r.rec.seen:
		if normalize != nil {
			got.raw, want = normalize(got.raw), encode(r.t, decode(r.t, want, &pb.TxnRequest{}))
		}
		if got.method != c.method || !bytes.Equal(got.raw, want) {
			r.t.Errorf("%s: sent %s %x,\nrecorded %s %x", what, got.method, got.raw, c.method, want)
		}
		delete(got.md, ":authority") // where the proxy is
		delete(got.md, "user-agent") // which release of the gRPC library
		if !equalMetadata(got.md, c.md) {
			r.t.Errorf("%s: metadata sent %v, recorded %v", what, got.md, c.md)
		}
		r.counts[what]++
	case <-r.ctx.Done():
		r.t.Fatalf("%s: nothing was sent, recorded %s %x", what, c.method, want)
	}
}

func equalMetadata(a, b metadata.MD) bool {
	for k := range a {
		if !slices.Equal(a[k], b[k]) {
			return false
		}
	}
	return len(a) == len(b)
}

func decode[M proto.Message](t *testing.T, b []byte, m M) M {
	t.Helper()
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
