package keyspace

import (
	"math"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// What one revision of a key takes in the database file beside its key and value,
// in bytes: the header of a bbolt leaf element (leafPageElement), which counts as
// part of the page, and the revision that is etcd's own key (RevBytes in
// server/storage/mvcc/revision.go: two 64-bit numbers and a separator).
const (
	leafElement = 16
	revisionKey = 17
)

// What bbolt's pages look like: size of a page on the platforms etcd supports,
// its header, and how full etcd lets a page of the key bucket become before it
// is split (FillPercent in server/storage/backend/batch_tx.go).
const (
	pageSize    = 4096
	pageHeader  = 16
	fillPercent = 0.9
	branchShare = 1.01 // a branch element of 33 bytes for each leaf page
)

// recordSize is what the latest revision of a key takes in the file, in bytes,
// without its part of the page (as dbfile.Record.Size).
func recordSize(kv *mvccpb.KeyValue) int64 {
	return int64(revisionKey + proto.Size(kv))
}

// tombstoneSize is the same for the record that says that a key was deleted: a
// revision with a mark, and nothing but the key.
func tombstoneSize(key []byte) int64 {
	return int64(revisionKey + 1 + proto.Size(&mvccpb.KeyValue{Key: key}))
}

// inPages returns how many bytes of pages a record takes in a freshly
// defragmented file, on average, among others of its size. bbolt fills a page up
// to 90 %, but puts at least two records into each, over as many pages as these
// two need (splitIndex in bbolt's node.go).
func inPages(record int64) float64 {
	room := fillPercent*pageSize - pageHeader
	record += leafElement
	if r := float64(record); 2*r <= room {
		// A page ends where the next record would not fit: half a record is
		// left empty on average.
		return branchShare * pageSize * r / (room - r/2)
	}
	return branchShare * pageSize * math.Ceil(float64(pageHeader+2*record)/pageSize) / 2
}
