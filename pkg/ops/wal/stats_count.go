package wal

import (
	"bytes"
	"encoding/binary"
	"strings"

	"kvd/pkg/ops/kube/keys"
)

const (
	maxGroups    = 8192    // prefixes, namespaces, users; the rest is counted together
	maxGroupText = 1 << 20 // bytes of their names that are kept before that is done as well
	others       = "(others)"
)

// counter counts what a log holds.
type counter struct {
	o       StatsOptions
	out     Stats
	last    uint64
	stated  bool // Commit was told
	request Request

	types      map[RequestType]*Amount
	prefixes   groups[prefixCount]
	namespaces groups[Amount]
	folders    map[string]*folder
	folderText int // bytes of their names
	users      groups[Amount]
	keys       heavy[*folder]
	leases     heavy[struct{}] // by leaseKey
	biggest    biggest
}

type prefixCount struct {
	Amount
	resource string
}

// folder is what all keys are counted under that are the same up to their last
// slash, so that of many keys few have to be taken apart.
type folder struct {
	prefix    *prefixCount
	namespace *Amount // nil: none
}

func newCounter(o StatsOptions) *counter {
	return &counter{o: o, biggest: biggest{most: mostBiggest(o.Top)}, types: map[RequestType]*Amount{}, folders: map[string]*folder{}}
}

func (c *counter) record(r *Record) {
	switch r.Type {
	case StateType:
		c.out.Commit, c.stated = r.State.Commit, true
	case EntryType:
		c.entry(r)
	case MetadataType, CRCType, SnapshotType:
	}
}

func (c *counter) entry(r *Record) {
	id := EntryID{r.Entry.Index, r.Entry.Term}
	if c.out.Entries++; c.out.Entries == 1 {
		c.out.First = id
	} else if id.Index <= c.last {
		c.out.Overwritten += int64(c.last - id.Index + 1) //nolint:gosec // of entries that were read
	}
	c.last, c.out.Last = id.Index, id
	c.out.Bytes += r.Size
	c.segment(r, id)

	q := &c.request
	q.Decode(r.Entry)
	c.typed(q.Type).add(r.Size)
	if q.User != "" {
		c.users.get(q.User).add(r.Size)
	}
	var w writing
	switch q.Type {
	case PutType, DeleteRangeType:
		c.op(&q.KV, &w)
	case TxnType:
		c.txn(&q.Txn, &w)
	}
	c.biggest.see(r, q, w)
}

func (c *counter) typed(t RequestType) *Amount {
	a := c.types[t]
	if a == nil {
		a = &Amount{}
		c.types[t] = a
	}
	return a
}

func (c *counter) segment(r *Record, id EntryID) {
	s := &c.out.Segments
	if n := len(*s); n == 0 || (*s)[n-1].Name != r.File {
		*s = append(*s, SegmentAmount{Name: r.File, First: id})
	}
	at := &(*s)[len(*s)-1]
	at.Last = id
	at.add(r.Size)
}

// writing is what an entry writes.
type writing struct {
	n   int
	key []byte // the first
}

func (c *counter) txn(t *Txn, w *writing) {
	for i := range t.Success {
		c.op(&t.Success[i], w)
	}
	for i := range t.Failure {
		c.op(&t.Failure[i], w)
	}
}

func (c *counter) op(o *Op, w *writing) {
	switch {
	case o.Txn != nil:
		c.txn(o.Txn, w)
		return
	case o.Op != PutType && o.Op != DeleteRangeType:
		return
	}
	if w.n++; w.n == 1 {
		w.key = o.Key
	}
	n := int64(o.Bytes)
	k, hash := c.keys.get(o.Key)
	if k == nil {
		k = c.keys.put(o.Key, hash, c.folder(o.Key))
	}
	k.add(n)
	k.of.prefix.add(n)
	if k.of.namespace != nil {
		k.of.namespace.add(n)
	}
	if o.Lease == 0 {
		return
	}
	id := leaseKey(o.Lease)
	l, hash := c.leases.get(id[:])
	if l == nil {
		l = c.leases.put(id[:], hash, struct{}{})
	}
	l.add(n)
}

// leaseKey is what a lease is counted by.
func leaseKey(id LeaseID) (key [8]byte) {
	binary.BigEndian.PutUint64(key[:], uint64(id)) //nolint:gosec // the same bits
	return key
}

func leaseOf(key string) LeaseID {
	return LeaseID(binary.BigEndian.Uint64([]byte(key))) //nolint:gosec // the same bits
}

// folder returns what a key is counted under.
func (c *counter) folder(key []byte) *folder {
	name := bytes.LastIndexByte(key, '/') + 1
	if f := c.folders[string(key[:name])]; f != nil && name < len(key) {
		return f
	}
	prefix, object := c.split(string(key))
	f := &folder{prefix: c.prefixes.get(prefix)}
	if f.prefix.resource == "" && object.Resource != "" {
		f.prefix.resource = object.GroupResource()
	}
	if object.Namespace != "" {
		f.namespace = c.namespaces.get(object.Namespace)
	}
	if name < len(key) { // a range over the folder may name something else
		if len(c.folders) >= maxGroups || c.folderText+name > maxGroupText {
			clear(c.folders)
			c.folderText = 0
		}
		if name <= maxGroupText {
			c.folders[string(key[:name])] = f
			c.folderText += name
		}
	}
	return f
}

// split returns the prefix that a key is counted under, and what it names, if that
// is an object of Kubernetes.
func (c *counter) split(key string) (prefix string, object keys.Key) {
	if object, ok := c.o.Layout.Parse(key); ok {
		behind := len(object.Name)
		if object.Namespace != "" {
			behind += len(object.Namespace) + 1
		}
		return key[:len(key)-behind], object
	}
	if prefix, ok := c.o.Layout.ResourcePrefix(key); ok { // a range over a resource
		object, _ = c.o.Layout.Parse(prefix + "x")
		return prefix, object
	}
	return firstPart(key), keys.Key{}
}

// firstPart is a key up to its first slash, but for one that it begins with.
func firstPart(key string) string {
	from := 0
	if strings.HasPrefix(key, "/") {
		from = 1
	}
	return key[:from+strings.IndexByte(key[from:], '/')+1]
}

func (a *Amount) add(size int64) {
	a.Count++
	a.Bytes += size
}

// groups are counts by name, of so many names.
type groups[V any] struct {
	of    map[string]*V
	names []string // as they came
	text  int      // bytes of them
}

func (g *groups[V]) get(name string) *V {
	if g.of == nil {
		g.of = map[string]*V{}
	}
	if v := g.of[name]; v != nil {
		return v
	}
	if len(g.of) >= maxGroups || g.text+len(name) > maxGroupText {
		name = others
		if v := g.of[name]; v != nil {
			return v
		}
	}
	v, name := new(V), strings.Clone(name)
	g.of[name], g.names, g.text = v, append(g.names, name), g.text+len(name)
	return v
}
