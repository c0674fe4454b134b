package keyspace

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
)

// recreatedPage is how many keys one page of the walk has. At some 100 bytes a
// key a page is about 1 MB.
const recreatedPage = 10_000

// RecreatedAt returns up to limit keys that were deleted and put again within
// revision rev itself. Compacting at exactly such a revision loses the fresh
// values on servers with etcd issue 22376 (up to 3.7.3 at least): the
// compaction takes the key's tombstone of that revision for its last word.
//
// It walks the keys as of rev in pages, keys only and serializable. From etcd
// 3.7 on such a page is read from the index in memory; an older server reads
// the values too, though it does not send them.
func RecreatedAt(ctx context.Context, kv Reader, rev int64, limit int) ([][]byte, error) {
	var found [][]byte
	from := "\x00"
	for {
		page, err := kv.Get(ctx, from, clientv3.WithFromKey(), clientv3.WithRev(rev), clientv3.WithKeysOnly(),
			clientv3.WithLimit(recreatedPage), clientv3.WithSerializable())
		if err != nil {
			return nil, err
		}
		for _, item := range page.Kvs {
			if item.CreateRevision != rev || item.Version != 1 {
				continue
			}
			existed, err := existedAt(ctx, kv, item.Key, rev-1)
			if err != nil {
				return nil, err
			}
			if existed {
				found = append(found, item.Key)
			}
			if len(found) >= limit {
				return found, nil
			}
		}
		if !page.More || len(page.Kvs) == 0 {
			return found, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// existedAt reports whether a key had a value at a revision. Below the last
// compaction nothing can be said; nothing can be lost there any more either.
func existedAt(ctx context.Context, kv Reader, key []byte, rev int64) (bool, error) {
	if rev < 1 {
		return false, nil
	}
	r, err := kv.Get(ctx, string(key), clientv3.WithRev(rev), clientv3.WithSerializable(), clientv3.WithCountOnly())
	if err != nil {
		if causeOf(err) == cluster.CauseCompacted {
			return false, nil
		}
		return false, err
	}
	return r.Count > 0, nil
}
