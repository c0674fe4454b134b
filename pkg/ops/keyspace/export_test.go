package keyspace

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"kvd/pkg/ops/cluster"
	"kvd/pkg/ops/kube/keys"
)

// WithoutStream has a look do what it does with servers before etcd 3.7.
func (o *LookOptions) WithoutStream() { o.noStream = true }

// WithoutStream has a source do what it does with servers before etcd 3.7, of which
// the oldest do not tell how far a watch has come.
func (o *LiveOptions) WithoutStream() { o.noStream = true }

// NeedsAllKeys is what becomes of the error of a read.
var NeedsAllKeys = needsAllKeys

// PageSizes reads all keys of a member as it does with servers before 3.7, and
// returns how many bytes each answer had.
func PageSizes(t *testing.T, m *cluster.MemberClient) (sizes []int64) {
	t.Helper()
	r, err := newReader(t.Context(), m, keys.Default(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r.paged, r.rate = true, 1<<40
	before := int64(0)
	err = r.scan(t.Context(), "\x00", allEnd, 0, func([]*mvccpb.KeyValue) (bool, error) {
		sizes, before = append(sizes, r.bytes-before), r.bytes
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sizes
}
