package dbfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
)

// The buckets that etcd uses.
//
// Source: go.etcd.io/etcd/server/v3 v3.7.3, storage/schema/bucket.go.
const (
	BucketKey            = "key"
	BucketMeta           = "meta"
	BucketLease          = "lease"
	BucketAlarm          = "alarm"
	BucketCluster        = "cluster"
	BucketMembers        = "members"
	BucketMembersRemoved = "members_removed"
	BucketAuth           = "auth"
	BucketAuthUsers      = "authUsers"
	BucketAuthRoles      = "authRoles"
)

// Bucket is one bucket of the file: a tree of pages of its own, or a single page
// that is small enough to be kept inside the bucket of buckets.
type Bucket struct {
	Name   string
	Root   uint64 // its root page, 0 for an inline one
	inline []byte // an inline one's page
	base   int64  // where in the file that begins
	at     Damage // where it is defined, for messages about an inline one
}

// Buckets lists the buckets in the order of their names.
func (f *File) Buckets(ctx context.Context) ([]Bucket, error) {
	return f.buckets(ctx, newPageSet(f), f.stopped)
}

// Bucket returns one bucket, nil if the file has none of that name.
func (f *File) Bucket(ctx context.Context, name string) (*Bucket, error) {
	list, err := f.Buckets(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i], nil
		}
	}
	return nil, nil
}

func (f *File) buckets(ctx context.Context, seen *pageSet, damage func(*Damage) error) ([]Bucket, error) {
	var list []Bucket
	w := &walker{f: f, ctx: ctx, pager: pager{f: f}, seen: seen, damage: damage}
	w.leaf = func(p *page) error {
		for i := range p.count {
			key, value, bucket := p.leafElement(i)
			at := Damage{Class: DamageBucket, Page: p.id, Offset: p.elementOffset(i), Element: i, Lower: bytes.Clone(key)}
			switch {
			case !bucket:
				at.Msg = fmt.Sprintf("%q among the buckets is none", clip(key))
			case len(value) < bucketHeaderSize:
				at.Msg = fmt.Sprintf("bucket %q has a header of %d bytes", clip(key), len(value))
			case binary.LittleEndian.Uint64(value) == 0 && len(value) < bucketHeaderSize+pageHeaderSize:
				at.Msg = fmt.Sprintf("bucket %q has neither a page nor a content", clip(key))
			default:
				b := Bucket{Name: string(key), Root: binary.LittleEndian.Uint64(value), at: at}
				if b.Root == 0 {
					b.inline, b.base = bytes.Clone(value[bucketHeaderSize:]), p.valueOffset(i)+bucketHeaderSize
				}
				list = append(list, b)
				continue
			}
			if err := damage(&at); err != nil {
				return err
			}
		}
		return nil
	}
	err := w.tree(f.header.Root)
	return list, err
}

// Each calls fn for each record of a bucket, in the order of the keys. The slices
// are valid until fn returns. A bucket that is not in the file is an empty one.
func (f *File) Each(ctx context.Context, name string, fn func(key, value []byte) error) error {
	b, err := f.Bucket(ctx, name)
	if err != nil || b == nil {
		return err
	}
	return f.eachPlain(ctx, b, newPageSet(f), fn, f.stopped)
}

func (f *File) eachPlain(ctx context.Context, b *Bucket, seen *pageSet, fn func(key, value []byte) error, damage func(*Damage) error) error {
	return f.each(ctx, b, nil, seen, func(p *page, i int, key, value []byte, bucket bool) error {
		if bucket {
			return damage(&Damage{Class: DamageBucket, Bucket: b.Name, Page: p.id, Offset: p.elementOffset(i), Element: i, Msg: "a bucket inside a bucket, which etcd never has"})
		}
		return fn(key, value)
	}, damage)
}

// visitElement is given each element of the leaf pages of a bucket.
type visitElement func(p *page, i int, key, value []byte, bucket bool) error

func (fn visitElement) leaf(p *page) error {
	for i := range p.count {
		key, value, bucket := p.leafElement(i)
		if err := fn(p, i, key, value, bucket); err != nil {
			return err
		}
	}
	return nil
}

// each walks one bucket.
func (f *File) each(ctx context.Context, b *Bucket, from []byte, seen *pageSet, fn visitElement, damage func(*Damage) error) error {
	w := &walker{f: f, ctx: ctx, pager: pager{f: f}, seen: seen, bucket: b.Name, from: from, damage: damage, leaf: fn.leaf}
	return w.walk(b)
}

// walk goes through the bucket, whose page may be an inline one.
func (w *walker) walk(b *Bucket) error {
	if b.Root != 0 {
		return w.tree(b.Root)
	}
	p, bad := b.inlinePage()
	if bad == nil {
		bad = w.checkOrder(&p, nil, nil)
	}
	if bad != nil {
		bad.Bucket, bad.Subtree = b.Name, true
		return w.damage(bad)
	}
	return w.leaf(&p)
}

// inlinePage reads the page inside a bucket's header: a leaf without a number.
func (b *Bucket) inlinePage() (page, *Damage) {
	p := parsePageHeader(b.inline)
	p.b, p.base, p.id = b.inline, b.base, b.at.Page
	bad := b.at
	bad.Class, bad.Lower = DamageBucket, nil
	switch table := pageHeaderSize + p.count*elementSize; {
	case p.flags != flagLeaf:
		bad.Msg = fmt.Sprintf("its inline page is a %s", pageType(p.flags))
	case p.overflow != 0:
		bad.Msg = "its inline page has an overflow"
	case table > len(p.b):
		bad.Msg = fmt.Sprintf("its inline page of %d bytes cannot hold %d elements", len(p.b), p.count)
	default:
		_, element, msg := p.checkElements(int64(len(p.b)))
		if msg == "" {
			return p, nil
		}
		bad.Msg = fmt.Sprintf("element %d of its inline page %s", element, msg)
	}
	return page{}, &bad
}
