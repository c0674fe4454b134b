package k8s

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/shape"
)

// object is one object in etcd: its key, and the revision at which it was last
// written, which the next write is conditional on. It belongs to one actor.
type object struct {
	key      string
	revision int64 // 0: it is not there
}

// took notes what the answer to a write says of the object.
func (o *object) took(resp *clientv3.TxnResponse) {
	if resp.Succeeded {
		o.revision = resp.Header.Revision
		return
	}
	o.revision = 0
	if len(resp.Responses) > 0 {
		o.found(resp.Responses[0].GetResponseRange().GetKvs())
	}
}

// found notes what a read of the object says.
func (o *object) found(kvs []*mvccpb.KeyValue) {
	o.revision = 0
	if len(kvs) > 0 {
		o.revision = kvs[0].ModRevision
	}
}

// listPage is how many keys are read at a time to see what is there.
const listPage = 1000

// leftovers lists what there is under a prefix, by key: the revisions of an
// earlier run's objects, for the next write to be conditional on.
func leftovers(ctx context.Context, env *loadgen.Env, resource, prefix string) (map[string]int64, error) {
	there := map[string]int64{}
	for from := prefix; ; {
		var resp *clientv3.GetResponse
		err := env.Prepare(ctx, 0, resource, prefix, func(ctx context.Context, c *clientv3.Client) (err error) {
			resp, err = c.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(listPage), clientv3.WithKeysOnly())
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, kv := range resp.Kvs {
			there[string(kv.Key)] = kv.ModRevision
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return there, nil
		}
		from = shape.Next(string(resp.Kvs[len(resp.Kvs)-1].Key))
	}
}

// seed makes the objects that are not there yet, so that the load begins with all
// of them. value is that of the i-th.
func seed(ctx context.Context, env *loadgen.Env, resource, prefix, what string, objects []*object, value func(i int) string) error {
	there, err := leftovers(ctx, env, resource, prefix)
	if err != nil {
		return err
	}
	var missing []int
	for i, o := range objects {
		if o.revision = there[o.key]; o.revision == 0 {
			missing = append(missing, i)
		}
	}
	if len(missing) > 0 {
		i := missing[0]
		if err := env.Reserve(what, len(missing), int64(len(objects[i].key)+len(value(i)))); err != nil {
			return err
		}
	}
	return env.Each(ctx, len(missing), what, func(ctx context.Context, n int) error {
		i := missing[n]
		resp, err := env.Commit(ctx, n, resource, objects[i].key, shape.Update(objects[i].key, value(i), 0, 0))
		if err != nil {
			return err
		}
		objects[i].took(resp)
		return nil
	})
}
