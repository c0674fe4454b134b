package dbfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"
)

// Space says what the bytes of a file are used for, each part counted on its own:
// what the records of the bucket "key" take (Record.Size) and these add up to the
// file's size, unless something is wrong with it.
type Space struct {
	Other    int64 // records of the other buckets, and of the bucket of buckets
	Branches int64 // branch pages
	Leaves   int64 // of leaf pages the headers of page and records, and the room behind the last one
	Free     int64 // pages that nothing refers to
	Meta     int64 // both meta pages, and the freelist where one is stored
	Tail     int64 // behind the last page: room that a server made ahead, or the hash of a snapshot
}

// Sum returns what the parts add up to, in bytes.
func (s Space) Sum() int64 { return s.Other + s.Branches + s.Leaves + s.Free + s.Meta + s.Tail }

func (s *Space) add(o *Space) {
	s.Other += o.Other
	s.Branches += o.Branches
	s.Leaves += o.Leaves
}

// page takes a page that was walked.
func (s *Space) page(p *page, size int64) {
	length := (int64(p.overflow) + 1) * size
	if p.isLeaf() {
		s.Leaves += pageHeaderSize + int64(p.count)*elementSize + length - p.used
	} else {
		s.Branches += length
	}
}

// BucketSize is how much is in a bucket.
type BucketSize struct {
	Name    string `json:"name"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"` // keys and values
}

// Survey reads every page of a file once, and accounts for every byte of it. fn is
// called for the records of the bucket "key", as by RecordsBeside; other buckets
// are counted. Damage is an error.
func (f *File) Survey(ctx context.Context, workers int, fn func(worker int, r *Record) error) (Space, []BucketSize, error) {
	var space Space
	seen := newPageSet(f)
	buckets, err := f.surveyRoot(ctx, seen, &space)
	if err != nil {
		return space, nil, err
	}
	var sizes []BucketSize
	for i := range buckets {
		b := &buckets[i]
		if b.Name == BucketKey {
			if err := f.recordsBeside(ctx, b, workers, seen, &space, fn); err != nil {
				return space, nil, err
			}
			continue
		}
		size := BucketSize{Name: b.Name}
		w := &walker{f: f, ctx: ctx, pager: pager{f: f}, seen: seen, bucket: b.Name, damage: f.stopped, space: &space}
		w.leaf = visitElement(func(_ *page, _ int, key, value []byte, _ bool) error {
			size.Records++
			size.Bytes += int64(len(key) + len(value))
			return nil
		}).leaf
		if err := w.walk(b); err != nil {
			return space, nil, err
		}
		if b.Root != 0 { // else it is in what the bucket of buckets takes
			space.Other += size.Bytes
		}
		sizes = append(sizes, size)
	}
	return space, sizes, f.rest(seen, &space)
}

// surveyRoot reads the bucket of buckets. An inline "key" is counted by its
// records, so all of its entry but these is counted here.
func (f *File) surveyRoot(ctx context.Context, seen *pageSet, space *Space) ([]Bucket, error) {
	buckets, err := f.buckets(ctx, seen, f.stopped)
	if err != nil {
		return nil, err
	}
	w := &walker{f: f, ctx: ctx, pager: pager{f: f}, seen: newPageSet(f), damage: f.stopped, space: space}
	w.leaf = visitElement(func(_ *page, _ int, key, value []byte, _ bool) error {
		space.Other += int64(len(key) + len(value))
		return nil
	}).leaf
	if err := w.tree(f.header.Root); err != nil {
		return nil, err
	}
	for i := range buckets {
		if b := &buckets[i]; b.Name == BucketKey && b.Root == 0 {
			p, bad := b.inlinePage()
			if bad != nil {
				return nil, f.stopped(bad)
			}
			for j := range p.count {
				key, value, _ := p.leafElement(j)
				space.Other -= int64(len(key) + len(value))
			}
		}
	}
	return buckets, nil
}

// rest counts what no bucket has.
func (f *File) rest(seen *pageSet, space *Space) error {
	size := int64(f.header.PageSize)
	if end := f.DataSize(); end > f.size {
		return f.stopped(&Damage{Class: DamageBeyondEnd, Page: uint64(f.size / size), Offset: f.size, Element: -1, //nolint:gosec // a length
			Msg: fmt.Sprintf("the file ends at byte %d, and its pages at byte %d", f.size, end)})
	}
	before := seen.count
	if f.header.Freelist != NoFreelist {
		if err := new(Scan).freelist(f, seen, f.stopped); err != nil {
			return err
		}
	}
	space.Meta = (2 + int64(seen.count-before)) * size //nolint:gosec // pages of the file
	space.Free = seen.absent(2, f.header.Pages) * size
	space.Tail = f.size - f.DataSize()
	return nil
}

// absent counts the pages from one number up to another that are not in the set.
func (s *pageSet) absent(from, to uint64) int64 {
	n := int64(to - from) //nolint:gosec // pages of the file
	for i, w := range s.words {
		first := uint64(i) * 64
		if first < from {
			w &^= 1<<(from-first) - 1
		}
		if first+64 > to {
			w &= 1<<(max(to, first)-first) - 1
		}
		n -= int64(bits.OnesCount64(w))
	}
	return n
}

// LastRevision returns the revision of the last record of the bucket "key", 0
// where it has none. It reads the right edge of the tree.
func (f *File) LastRevision(ctx context.Context) (int64, error) {
	b, err := f.Bucket(ctx, BucketKey)
	if err != nil || b == nil {
		return 0, err
	}
	last := int64(0)
	take := decodeRecords(b, nil, func(r *Record) error { last = r.Main; return nil }, f.stopped)
	w := &walker{f: f, ctx: ctx, pager: pager{f: f}, seen: newPageSet(f), bucket: b.Name, damage: f.stopped, leaf: take.leaf}
	if b.Root == 0 {
		err = w.walk(b)
		return last, err
	}
	edge := part{id: b.Root}
	for {
		p, bad := w.pager.page(edge.depth, edge.id)
		if bad != nil {
			bad.Bucket = b.Name
			return 0, f.stopped(bad)
		}
		if p.isLeaf() || edge.depth >= maxDepth {
			break
		}
		children := p.parts(edge)
		edge = children[len(children)-1]
	}
	err = w.subtree(edge.id, edge.depth, edge.lower, edge.upper)
	return last, err
}

// keyHead is how much of a record is read for its key.
const keyHead = 4 << 10

// KeyAt reads the key of a record whose value begins at an offset and has at most
// size bytes, without the rest of it where that is long.
func (f *File) KeyAt(offset, size int64) ([]byte, error) {
	for n := min(keyHead, size); ; n = size {
		b := make([]byte, min(n, f.size-offset))
		if _, err := f.r.ReadAt(b, offset); err != nil && !errors.Is(err, io.EOF) {
			return nil, f.stopped(unreadable(0, offset, err))
		}
		num, typ, tag := protowire.ConsumeTag(b)
		if num == 1 && typ == protowire.BytesType {
			if key, m := protowire.ConsumeBytes(b[tag:]); m > 0 {
				return key, nil
			}
		}
		if n == size {
			break
		}
	}
	return nil, f.stopped(&Damage{Class: DamageRecord, Bucket: BucketKey, Offset: offset, Element: -1, Msg: "its key is not where it was"})
}
