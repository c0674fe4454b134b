package shape

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Txn is a write: Then if If, else Else.
type Txn struct {
	If         clientv3.Cmp
	Then, Else []clientv3.Op
}

// Commit sends it. The error is etcd's.
func (t Txn) Commit(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
	return c.Txn(ctx).If(t.If).Then(t.Then...).Else(t.Else...).Commit()
}

// Create writes an object that is not there yet. Where it is, the answer does not
// say what is there (store.go, Create).
func Create(key, value string, lease clientv3.LeaseID) Txn {
	return Txn{
		If:   clientv3.Compare(clientv3.ModRevision(key), "=", 0),
		Then: []clientv3.Op{clientv3.OpPut(key, value, clientv3.WithLease(lease))},
	}
}

// Update writes an object if it still is the one of the revision, and gets what
// there is otherwise; revision 0 creates it, which server-side apply and the
// leases of API servers do (store.go, GuaranteedUpdate).
func Update(key, value string, revision int64, lease clientv3.LeaseID) Txn {
	t := Create(key, value, lease)
	t.If = clientv3.Compare(clientv3.ModRevision(key), "=", revision)
	t.Else = []clientv3.Op{clientv3.OpGet(key)}
	return t
}

// Delete removes an object if it still is the one of the revision (store.go,
// conditionalDelete).
func Delete(key string, revision int64) Txn {
	return Txn{
		If:   clientv3.Compare(clientv3.ModRevision(key), "=", revision),
		Then: []clientv3.Op{clientv3.OpDelete(key)},
		Else: []clientv3.Op{clientv3.OpGet(key)},
	}
}

// Read is a range request.
type Read struct {
	Key  string
	Opts []clientv3.OpOption
}

// Send sends it. The error is etcd's.
func (r Read) Send(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
	return c.Get(ctx, r.Key, r.Opts...)
}

// Get reads an object, linearizably like all that Kubernetes reads.
func Get(key string) Read { return Read{key, []clientv3.OpOption{clientv3.WithLimit(1)}} }

// Probe asks for the current revision, which a list that the API server serves
// from its cache must have reached. Its key is the resource's prefix without the
// last slash, where there never is anything (store.go, GetCurrentResourceVersion).
func Probe(resource string) Read { return Get(resource) }

// Page reads a list's page: limit objects (0: all) from a key on, at a revision
// (0: the current one). The first page is from the prefix, each further one from
// Next of the last key.
func Page(prefix, from string, limit, revision int64) Read {
	end := clientv3.GetPrefixRangeEnd(prefix)
	return Read{from, []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(revision)}}
}

// Next returns the first key that can follow another.
func Next(key string) string { return key + "\x00" }

// Count counts a resource's objects.
func Count(prefix string) Read {
	return Read{prefix, []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCountOnly()}}
}

// Health asks whether etcd answers. Its key is "/registry/health", where there
// never is anything (factory/etcd3.go).
func Health(key string) Read { return Read{Key: key} }

// SendStream has it answered in chunks, of etcd 3.7 on, each of which is handed to
// seen: so does the API server read lists that it has no cache of, and so does its
// cache fill itself, with a context of WithLeader (store.go, streamList). The
// error is etcd's, or seen's.
func (r Read) SendStream(ctx context.Context, c *clientv3.Client, seen func(*pb.RangeResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks, err := c.GetStream(ctx, r.Key, r.Opts...)
	if err != nil {
		return err
	}
	for chunk := range chunks {
		err := chunk.Err()
		if err == nil {
			err = seen(chunk.RangeResponse)
		}
		if err != nil {
			cancel()
			for range chunks { // its sender would wait for ever
			}
			return err
		}
	}
	return nil
}

// WithLeader has etcd end a stream when its member has lost the leader.
func WithLeader(ctx context.Context) context.Context { return clientv3.WithRequireLeader(ctx) }

// Watch is how the API server's cache follows a resource: with the values that
// events replaced, and word of progress where nothing happens. Its context is one
// of WithLeader, and so is that of the progress requests, or they would go to
// another stream (client/v3's watch.go, streamKeyFromCtx).
func Watch(prefix string, from int64) Read {
	return Read{prefix, []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithRev(from),
		clientv3.WithPrevKV(), clientv3.WithProgressNotify()}}
}

// Open begins the watch.
func (r Read) Open(ctx context.Context, c *clientv3.Client) clientv3.WatchChan {
	return c.Watch(ctx, r.Key, r.Opts...)
}

// WatchRequest is the message by which Watch begins, for who reads the stream
// alone: etcd's client would take in all that comes, however slow its reader is.
func WatchRequest(prefix string, from int64, prevKV, progress bool) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix)), StartRevision: from, PrevKv: prevKV, ProgressNotify: progress,
	}}}
}
