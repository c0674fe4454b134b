package dbfile

import (
	"context"
	"hash"
	"hash/crc32"
)

// KVHash is the digest of a file's keys and values that members compare with each
// other: what `etcdctl endpoint hashkv` shows for a member with this content.
type KVHash struct {
	Hash            uint32
	Revision        int64 // up to which records count
	CompactRevision int64 // up to which only live ones do
}

// kvHasher computes it: a CRC-32C over the bucket's name, and key and value of
// each record as they are stored. Records up to the compacted revision count only
// where they are live, so that a member that has yet to delete the others gets
// the same hash; where nothing is live all of them count. A tombstone at that
// very revision never counts, since older versions delete it.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/mvcc/hash.go (kvHasher), kvstore.go (hashByRev).
type kvHasher struct {
	crc     hash.Hash32
	compact int64
	live    *LiveSet
}

func newKVHasher(compact int64, live *LiveSet) *kvHasher {
	h := &kvHasher{crc: crc32.New(crc32.MakeTable(crc32.Castagnoli)), compact: compact, live: live}
	h.crc.Write([]byte(BucketKey)) //nolint:errcheck // a hash never fails
	return h
}

func (h *kvHasher) add(r *Record) {
	if r.Main <= h.compact && h.live.live > 0 && !h.live.Has(r.Index) {
		return
	}
	if r.Main == h.compact && r.Tombstone {
		return
	}
	h.crc.Write(r.RawKey)   //nolint:errcheck // a hash never fails
	h.crc.Write(r.RawValue) //nolint:errcheck // a hash never fails
}

// HashKV computes the digest of a file at its latest revision. It reads the
// bucket "key" twice.
func (f *File) HashKV(ctx context.Context) (KVHash, error) {
	m, err := f.Meta(ctx)
	if err != nil {
		return KVHash{}, err
	}
	live, err := f.LiveAt(ctx, 0)
	if err != nil {
		return KVHash{}, err
	}
	h := newKVHasher(m.CompactRevision(), live)
	head := int64(1)
	err = f.keyRecords(ctx, nil, func(r *Record) error {
		head = r.Main
		h.add(r)
		return nil
	}, f.stopped)
	return KVHash{Hash: h.crc.Sum32(), Revision: m.headRevision(head), CompactRevision: h.compact}, err
}

// headRevision is the current revision of a member that starts on the file: its
// last record's, or that of a compaction which has deleted the last record.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/mvcc/kvstore.go, restore.
func (m Meta) headRevision(lastRecord int64) int64 {
	return max(1, lastRecord, m.FinishedCompact, m.ScheduledCompact)
}
