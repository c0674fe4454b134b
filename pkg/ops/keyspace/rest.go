package keyspace

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"

	"kvd/pkg/ops/dbfile"
	"kvd/pkg/ops/fault"
)

// Rest is some of the keys of a file, as it has them at a revision.
type Rest struct {
	s      *FileSource
	q      Query
	sorter *sorter
	c      Change
	buffer []byte
}

const (
	// shortValue is how long a value may be, in bytes, that is kept with its key and
	// not read again.
	shortValue = 512
	// restWindow and restGap bound how much is read in one go, and how much between
	// two records that nobody wants, in bytes.
	restWindow = 64 << 10
	restGap    = 8 << 10
)

func newRest(side *apartSide) *Rest {
	return &Rest{s: side.s, q: side.q, sorter: newSorter(side.s.o.Memory/2, 0, side.s.o.SpoolDir)} // there are two
}

// Keys calls fn for each of the keys, in their order. It can be called once.
func (r *Rest) Keys(_ context.Context, fn func(*Item) error) error {
	give := func(c *Change) error { return fn(&c.Item) }
	err := merged([]*sorter{r.sorter}, func(key, body []byte) error {
		r.c = parseChange(key, body)
		return r.s.give(r.q, &r.c, give)
	})
	if err != nil {
		return err
	}
	return r.s.torn(nil)
}

// Close gives back the memory, and a file where one was needed. The source stays open.
func (r *Rest) Close() error { return r.sorter.close() }

// add reads records by where they are.
func (r *Rest) add(ctx context.Context, seed maphash.Seed, records []place) error {
	slices.SortFunc(records, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	r.sorter.expect(len(records), r.expected(records))
	var body []byte
	for len(records) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := together(records)
		from, end := records[0].at, records[n-1].end()
		if int64(cap(r.buffer)) < end-from {
			r.buffer = make([]byte, max(end-from, restWindow))
		}
		b := r.buffer[:end-from]
		if _, err := r.s.db.ReadAt(b, from); err != nil {
			return r.s.torn(&fault.Error{Kind: fault.Unavailable, Cause: "unreadable_file", Op: "read", Subject: r.s.path, Err: err})
		}
		for _, p := range records[:n] {
			c, ok := r.change(seed, p, b[p.at-from:p.end()-from])
			if !ok {
				return r.s.torn(r.s.changed(p.at))
			}
			body = appendChange(body[:0], c)
			if err := r.sorter.add(c.Key, body); err != nil {
				return err
			}
		}
		records = records[n:]
	}
	return r.s.torn(nil)
}

// expected is about how many bytes the sorter will have of records.
func (r *Rest) expected(records []place) int64 {
	const numbers = 40 // bytes of a change beside its key and value
	n := int64(0)
	for _, p := range records {
		n += min(int64(p.size), shortValue) + numbers
	}
	return n
}

// together returns how many of the records, which are sorted, are read in one go.
func together(records []place) int {
	n := 1
	for n < len(records) && records[n].at-records[n-1].end() <= restGap && records[n].end()-records[0].at <= restWindow {
		n++
	}
	return n
}

// change decodes a record, and checks that it is still the one that was there.
func (r *Rest) change(seed maphash.Seed, p place, raw []byte) (*Change, bool) {
	kv, err := dbfile.ParseKeyValue(raw)
	if err != nil || check(hashOf(seed, kv.Key), r.q.print(seed, raw, &kv)) != p.check {
		return nil, false
	}
	c := &r.c
	*c = Change{Item: Item{KeyValue: kv, Size: revisionKey + int64(p.size), ref: reference{p.at, int64(p.size)}}}
	if !r.q.KeysOnly && len(kv.Value) <= shortValue {
		c.ref = reference{}
	} else {
		c.Value = nil
	}
	return c, true
}
