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
	return &Rest{s: side.s, q: side.q, sorter: newSorter(side.s.o.Memory, 0, side.s.o.SpoolDir)}
}

// Keys calls fn for each of the keys, in their order. It can be called once.
func (r *Rest) Keys(_ context.Context, fn func(*Item) error) error {
	give := func(c *Change) error { return fn(&c.Item) }
	return merged([]*sorter{r.sorter}, func(key, body []byte) error {
		r.c = parseChange(key, body)
		return r.s.give(r.q, &r.c, give)
	})
}

// Close gives back the memory, and a file where one was needed. The source stays open.
func (r *Rest) Close() error { return r.sorter.close() }

// add reads records by where they are.
func (r *Rest) add(ctx context.Context, seed maphash.Seed, records []keyRecord) error {
	slices.SortFunc(records, func(a, b keyRecord) int { return cmp.Compare(a.at, b.at) })
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
		for i := range records[:n] {
			k := &records[i]
			c, ok := r.change(seed, k, b[k.at-from:k.end()-from])
			if !ok {
				return r.s.torn(r.s.changed(k.at))
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

// end returns where the record ends.
func (k *keyRecord) end() int64 { return k.at + int64(k.size) }

// together returns how many of the records, which are sorted, are read in one go.
func together(records []keyRecord) int {
	n := 1
	for n < len(records) && records[n].at-records[n-1].end() <= restGap && records[n].end()-records[0].at <= restWindow {
		n++
	}
	return n
}

// change decodes a record, and checks that it is still the one that was there.
func (r *Rest) change(seed maphash.Seed, k *keyRecord, raw []byte) (*Change, bool) {
	kv, err := dbfile.ParseKeyValue(raw)
	if err != nil || hashOf(seed, kv.Key) != k.hash || r.q.print(seed, raw, &kv) != k.mark {
		return nil, false
	}
	c := &r.c
	*c = Change{Item: Item{KeyValue: kv, Size: revisionKey + int64(k.size), ref: reference{k.at, int64(k.size)}}}
	if !r.q.KeysOnly && len(kv.Value) <= shortValue {
		c.ref = reference{}
	} else {
		c.Value = nil
	}
	return c, true
}
