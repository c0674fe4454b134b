package dbfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
)

// Revision is the key of a record in the bucket "key": the number of the
// transaction, and the number of the change in it.
type Revision struct {
	Main, Sub int64
	Tombstone bool // the record says that its key was deleted
}

// The length of a revision: 8 bytes, '_', 8 bytes, both numbers big-endian; with
// a 't' behind for a tombstone.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/mvcc/revision.go.
const (
	revisionSize   = 17
	tombstoneSize  = revisionSize + 1
	tombstoneMark  = 't'
	revisionMiddle = '_'
)

// ParseRevision decodes a key of the bucket "key". A key of 18 bytes that does
// not end with the mark counts as a put, as it does for etcd.
func ParseRevision(b []byte) (Revision, bool) {
	if len(b) != revisionSize && len(b) != tombstoneSize || b[8] != revisionMiddle {
		return Revision{}, false
	}
	main, sub := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[9:])
	if main > math.MaxInt64 || sub > math.MaxInt64 {
		return Revision{}, false
	}
	return Revision{Main: int64(main), Sub: int64(sub), Tombstone: len(b) == tombstoneSize && b[revisionSize] == tombstoneMark}, true
}

// Bytes encodes a revision as the key of its record.
func (r Revision) Bytes() []byte {
	b := make([]byte, revisionSize, tombstoneSize)
	binary.BigEndian.PutUint64(b, uint64(r.Main))
	b[8] = revisionMiddle
	binary.BigEndian.PutUint64(b[9:], uint64(r.Sub))
	if r.Tombstone {
		b = append(b, tombstoneMark)
	}
	return b
}

// String writes main/sub as etcd's logs do, with a t for a tombstone.
func (r Revision) String() string {
	mark := ""
	if r.Tombstone {
		mark = "t"
	}
	return fmt.Sprintf("%d/%d%s", r.Main, r.Sub, mark)
}

// Record is one change of one key. Its slices are parts of the reader's buffer,
// valid until the function that got them returns.
type Record struct {
	Revision
	KeyValue
	Index    int64  // how many records are before it in the file
	Offset   int64  // where in the file RawValue begins
	RawKey   []byte // as it is stored
	RawValue []byte // as it is stored
}

// Size is what the record takes in the file without its part of the page, in
// bytes: the revision and the encoded mvccpb.KeyValue.
func (r *Record) Size() int64 { return int64(len(r.RawKey) + len(r.RawValue)) }

// Revisions calls fn for each record of the bucket "key" whose main revision is
// from or above, in order. It stops at the first error of fn, or at damage,
// which is an error with a *Damage in it. Record.Index counts from the first
// record that was seen, so that it is the place in the file only with from 0.
func (f *File) Revisions(ctx context.Context, from int64, fn func(*Record) error) error {
	lower := []byte(nil)
	if from > 0 {
		lower = Revision{Main: from}.Bytes()
	}
	return f.keyRecords(ctx, lower, fn, f.stopped)
}

// records decodes what is in the bucket "key".
func (f *File) records(ctx context.Context, b *Bucket, from []byte, seen *pageSet, fn func(*Record) error, damage func(*Damage) error) error {
	return f.each(ctx, b, from, seen, decodeRecords(b, from, fn, damage), damage)
}

// decodeRecords returns a visitor of a leaf's elements which makes records of them.
func decodeRecords(b *Bucket, from []byte, fn func(*Record) error, damage func(*Damage) error) visitElement {
	var rec Record
	index := int64(0)
	return func(p *page, i int, key, value []byte, bucket bool) error {
		if from != nil && bytes.Compare(key, from) < 0 {
			return nil
		}
		bad := func(class, msg string) error {
			return damage(&Damage{Class: class, Bucket: b.Name, Page: p.id, Offset: p.elementOffset(i), Element: i, Msg: msg,
				Lower: bytes.Clone(key)})
		}
		rev, ok := ParseRevision(key)
		if !ok || bucket {
			return bad(DamageRevision, fmt.Sprintf("its key %q is no revision", clip(key)))
		}
		rec = Record{Revision: rev, Index: index, Offset: p.valueOffset(i), RawKey: key, RawValue: value}
		if !rec.parse(value) {
			return bad(DamageRecord, fmt.Sprintf("revision %s does not decode: %v", rev, errWire))
		}
		index++
		return fn(&rec)
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 40)] }
