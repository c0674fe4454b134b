// Package keyspace reads what is stored in etcd: from a live cluster in small
// pieces that hurt nobody, and from files in any order of their records.
package keyspace

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kvd/pkg/ops/cluster"
)

// Reader is what reading a live cluster takes: an etcd client, or one that is
// pinned to a member.
type Reader interface {
	Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error)
}

// probeKey is a key that nobody has. What matters is only whether a read at a
// revision is refused.
const probeKey = "\x00kvd/probe"

// OldestRevision returns the oldest revision that can still be read, which is
// the revision of the last compaction, or 1 where nothing was ever compacted.
// head must be a revision that exists.
//
// No RPC tells this number (HashKV would, but stalls its member), so it is
// searched for: some log2(head) serializable reads of one key that does not
// exist, each answered from the index in memory. A compaction that lands during
// the search makes the result one that was true at some moment in it.
func OldestRevision(ctx context.Context, kv Reader, head int64) (int64, error) {
	low, high := int64(1), head // the answer lies in [low, high]
	for low < high {
		mid := low + (high-low)/2
		readable, err := readableAt(ctx, kv, mid)
		if err != nil {
			return 0, err
		}
		if readable {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low, nil
}

// readableAt asks for one absent key at a revision. A member that lags answers
// "future revision", which says as much as an answer: it was not compacted.
func readableAt(ctx context.Context, kv Reader, rev int64) (bool, error) {
	_, err := kv.Get(ctx, probeKey, clientv3.WithRev(rev), clientv3.WithSerializable(), clientv3.WithLimit(1), clientv3.WithCountOnly())
	if err == nil {
		return true, nil
	}
	switch causeOf(err) {
	case cluster.CauseFutureRevision:
		return true, nil
	case cluster.CauseCompacted:
		return false, nil
	default:
		return false, err
	}
}

// causeOf names the cause of a Reader's error, be it etcd's own or one that a
// cluster client has put into words, which hides etcd's from errors.Is.
func causeOf(err error) string { return cluster.Classify("read", "", err).Cause }
