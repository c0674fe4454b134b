package k8s

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/loadgen"
	"kvd/pkg/loadgen/shape"
)

// updateTries is how often a write is tried again after a conflict. The API server
// tries for as long as its client waits; a load that needs more is one of
// conflicts.
const updateTries = 5

// create writes the object for the first time, and reports whether it did.
func (o *object) create(ctx context.Context, t *loadgen.Turn, resource, value string, lease clientv3.LeaseID) bool {
	resp, err := t.Txn(ctx, resource, shape.Create(o.key, value, lease))
	if err != nil {
		return false
	}
	if o.took(resp); !resp.Succeeded { // there is one of an earlier run
		if now, err := t.Get(ctx, resource, shape.Get(o.key)); err == nil {
			o.found(now.Kvs)
		}
	}
	return resp.Succeeded
}

// update writes the object from what is known of it, and after a conflict from
// what the answer says, and reports whether it did.
func (o *object) update(ctx context.Context, t *loadgen.Turn, resource, value string, lease clientv3.LeaseID) bool {
	for range updateTries {
		resp, err := t.Txn(ctx, resource, shape.Update(o.key, value, o.revision, lease))
		if err != nil {
			return false
		}
		if o.took(resp); resp.Succeeded {
			return true
		}
	}
	return false
}

// read gets the object as a client that wants the newest does.
func (o *object) read(ctx context.Context, t *loadgen.Turn, resource string) {
	if now, err := t.Get(ctx, resource, shape.Get(o.key)); err == nil {
		o.found(now.Kvs)
	}
}

// remove deletes the object, which the API server reads first, and reports
// whether it did.
func (o *object) remove(ctx context.Context, t *loadgen.Turn, resource string) bool {
	for o.read(ctx, t, resource); o.revision != 0; {
		resp, err := t.Txn(ctx, resource, shape.Delete(o.key, o.revision))
		if err != nil {
			return false
		}
		if resp.Succeeded {
			o.revision = 0
			return true
		}
		o.took(resp)
	}
	return false
}
