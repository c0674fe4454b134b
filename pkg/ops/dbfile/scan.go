package dbfile

import (
	"context"
	"fmt"
)

// Scan is one pass over everything in a file, whole or damaged. The functions may
// be nil. Whatever cannot be read is told to Damage, and the scan goes on behind
// it; without Damage the first is the error that Run returns.
type Scan struct {
	// Record is called for each record of the bucket "key", in order, which
	// is read first.
	Record func(*Record) error
	// Other is called for each record of every other bucket.
	Other func(bucket string, key, value []byte) error
	// Damage is told what is wrong. The scan ends with the error it returns.
	Damage func(*Damage) error
	// Live is filled in before the first record, unless SkipLive is set: it
	// costs one pass more over the bucket "key".
	Live     *LiveSet
	SkipLive bool

	// What the scan finds.
	Meta     Meta
	Buckets  []string
	Head     int64  // the current revision of a member that starts on the file
	KVHash   KVHash // of the records that could be read; not with SkipLive
	Used     uint64 // pages that are referred to, both meta pages and a freelist included
	Freelist int64  // pages that a stored freelist lists, -1 where there is none
}

// Run scans the file.
func (s *Scan) Run(ctx context.Context, f *File) error {
	damage := s.Damage
	if damage == nil {
		damage = f.stopped
	}
	quiet := func(*Damage) error { return nil }
	if s.Damage == nil {
		quiet = f.stopped
	}
	seen := newPageSet(f)
	buckets, err := f.buckets(ctx, seen, damage)
	if err != nil {
		return err
	}
	var key *Bucket
	for i := range buckets {
		s.Buckets = append(s.Buckets, buckets[i].Name)
		switch buckets[i].Name {
		case BucketKey:
			key = &buckets[i]
		case BucketMeta:
			// Read ahead of its turn, on a set of its own: the hash needs it.
			if err := f.eachPlain(ctx, &buckets[i], newPageSet(f), s.takeMeta(quiet), quiet); err != nil {
				return err
			}
		}
	}
	if err := s.keys(ctx, f, key, seen, damage, quiet); err != nil {
		return err
	}
	for i := range buckets {
		if buckets[i].Name == BucketKey {
			continue
		}
		take := func(k, v []byte) error { return nil }
		if s.Other != nil {
			take = func(k, v []byte) error { return s.Other(buckets[i].Name, k, v) }
		}
		if buckets[i].Name == BucketMeta {
			inner := take
			check := s.takeMeta(damage)
			take = func(k, v []byte) error {
				if err := check(k, v); err != nil {
					return err
				}
				return inner(k, v)
			}
		}
		if err := f.eachPlain(ctx, &buckets[i], seen, take, damage); err != nil {
			return err
		}
	}
	s.Freelist = -1
	if f.header.Freelist != NoFreelist {
		if err := s.freelist(f, seen, damage); err != nil {
			return err
		}
	}
	s.Used = seen.count + 2
	return nil
}

func (s *Scan) takeMeta(damage func(*Damage) error) func(key, value []byte) error {
	return func(key, value []byte) error {
		if bad := s.Meta.set(string(key), value); bad != "" {
			return damage(&Damage{Class: DamageRecord, Bucket: BucketMeta, Element: -1, Msg: bad})
		}
		return nil
	}
}

// keys reads the bucket "key": once for what is live, once for the rest.
func (s *Scan) keys(ctx context.Context, f *File, key *Bucket, seen *pageSet, damage, quiet func(*Damage) error) error {
	s.Head = s.Meta.headRevision(1)
	if key == nil {
		return nil
	}
	var hasher *kvHasher
	if !s.SkipLive {
		live, err := f.liveAt(ctx, 0, liveKeys, quiet)
		if err != nil {
			return err
		}
		s.Live = live
		hasher = newKVHasher(s.Meta.CompactRevision(), live)
	}
	err := f.records(ctx, key, nil, seen, func(r *Record) error {
		s.Head = max(s.Head, r.Main)
		if hasher != nil {
			hasher.add(r)
		}
		if s.Record != nil {
			return s.Record(r)
		}
		return nil
	}, damage)
	if hasher != nil {
		s.KVHash = KVHash{Hash: hasher.crc.Sum32(), Revision: s.Head, CompactRevision: hasher.compact}
	}
	return err
}

// keyRecords reads the bucket "key" on its own, in the very order that Scan does.
func (f *File) keyRecords(ctx context.Context, from []byte, fn func(*Record) error, damage func(*Damage) error) error {
	seen := newPageSet(f)
	buckets, err := f.buckets(ctx, seen, damage)
	if err != nil {
		return err
	}
	for i := range buckets {
		if buckets[i].Name == BucketKey {
			return f.records(ctx, &buckets[i], from, seen, fn, damage)
		}
	}
	return nil
}

// freelist checks a stored list of free pages. etcd stores none, but a file that
// another tool has opened for writing may have one, and a server believes it.
//
// Source: go.etcd.io/bbolt v1.5.0, db.go (loadFreelist), internal/common/page.go (FreelistPageIds).
func (s *Scan) freelist(f *File, seen *pageSet, damage func(*Damage) error) error {
	id, size := f.header.Freelist, int64(f.header.PageSize)
	base := f.pageOffset(id)
	bad := func(element int, format string, args ...any) error {
		return damage(&Damage{Class: DamageFreelist, Page: id, Offset: base, Element: element, Msg: fmt.Sprintf(format, args...)})
	}
	if id < 2 || id >= f.header.Pages || base+size > f.size {
		return bad(-1, "lies outside the file")
	}
	l := list{f: f, at: base}
	head, err := l.next(pageHeaderSize)
	if err != nil {
		return damage(unreadable(id, base, err))
	}
	p := parsePageHeader(head)
	length := (int64(p.overflow) + 1) * size
	count := int64(p.count)
	switch {
	case p.id != id || p.flags != flagFreelist:
		return bad(-1, "is a %s that says it is page %d", pageType(p.flags), p.id)
	case base+length > f.size || id+uint64(p.overflow) >= f.header.Pages:
		return bad(-1, "is said to be %d pages long, beyond the end", int64(p.overflow)+1)
	}
	if other, ok := seen.add(id, p.overflow); !ok {
		return bad(-1, "page %d of it is in use for something else", other)
	}
	room := (length - pageHeaderSize) / 8
	if count == 0xffff { // then the first number is the count
		n, err := l.u64()
		if err != nil {
			return damage(unreadable(id, base, err))
		}
		room--
		count = int64(min(n, 1<<62))
	}
	if count > room {
		return bad(-1, "lists %d pages, and has room for %d", count, room)
	}
	last := uint64(1)
	for i := range count {
		n, err := l.u64()
		switch {
		case err != nil:
			return damage(unreadable(id, base, err))
		case n <= last || n >= f.header.Pages:
			return bad(int(i), "lists page %d after page %d, of %d", n, last, f.header.Pages)
		case seen.has(n):
			return bad(int(i), "lists page %d as free, which is in use", n)
		}
		last = n
	}
	s.Freelist = count
	return nil
}

// list reads a run of numbers through a small buffer.
type list struct {
	f   *File
	at  int64
	buf []byte
}

func (l *list) next(n int) ([]byte, error) {
	if len(l.buf) < n {
		b := make([]byte, min(32<<10, l.f.size-l.at))
		got, err := l.f.r.ReadAt(b, l.at)
		if got < n {
			return nil, err
		}
		l.buf = b[:got-got%8]
		l.at += int64(len(l.buf))
	}
	b := l.buf[:n]
	l.buf = l.buf[n:]
	return b, nil
}

func (l *list) u64() (uint64, error) {
	b, err := l.next(8)
	if err != nil {
		return 0, err
	}
	return le64(b), nil
}
