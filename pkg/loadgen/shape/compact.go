package shape

import (
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// CompactKey is the key at which API servers agree on who compacts.
const CompactKey = "compact_rev_key"

// Compactor is what one API server knows of the agreement on who compacts: the
// version of the key, and the revision of its last round, which is compacted in
// this one. So history lasts for one to two rounds, and who comes late in a round
// compacts nothing. It is for one goroutine.
type Compactor struct {
	Key string

	version, revision int64
}

// Claim returns the round's first request: who knows the key's version wins.
func (c *Compactor) Claim() Txn {
	return Txn{
		If:   clientv3.Compare(clientv3.Version(c.Key), "=", c.version),
		Then: []clientv3.Op{clientv3.OpPut(c.Key, strconv.FormatInt(c.revision, 10))},
		Else: []clientv3.Op{clientv3.OpGet(c.Key)},
	}
}

// Answered takes the answer to Claim, and returns the revision to compact at, 0
// for none.
func (c *Compactor) Answered(r *clientv3.TxnResponse) int64 {
	compact := int64(0)
	switch {
	case r.Succeeded:
		c.version++
		compact = c.revision
	case len(r.Responses) > 0:
		if kvs := r.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
			c.version = kvs[0].Version
		}
	}
	c.revision = r.Header.Revision
	return compact
}
