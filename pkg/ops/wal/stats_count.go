package wal

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"kvd/pkg/ops/kube/keys"
)

const (
	maxCounted = 32_768  // keys, and leases, that are kept before those with the least bytes are dropped
	maxKeyText = 8 << 20 // bytes of keys that are kept before that is done as well
	maxGroups  = 8192    // prefixes, namespaces, users; the rest is counted together
	maxBiggest = 100     // entries, where no number is given
	others     = "(others)"
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
	users      groups[Amount]
	keys       heavy[string, *folder]
	leases     heavy[LeaseID, struct{}]
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
	return &counter{o: o, types: map[RequestType]*Amount{}, folders: map[string]*folder{}}
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
	c.big(r, q, w)
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
	var k *counted[string, *folder]
	if i, ok := c.keys.at[string(o.Key)]; ok { // not by get, which would need memory for the string
		k = &c.keys.all[i]
	} else {
		k = c.keys.put(string(o.Key), c.folder(o.Key), len(o.Key))
	}
	k.add(n)
	k.of.prefix.add(n)
	if k.of.namespace != nil {
		k.of.namespace.add(n)
	}
	if o.Lease == 0 {
		return
	}
	l := c.leases.get(o.Lease)
	if l == nil {
		l = c.leases.put(o.Lease, struct{}{}, 0)
	}
	l.add(n)
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
		if len(c.folders) >= maxGroups {
			clear(c.folders)
		}
		c.folders[string(key[:name])] = f
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

// biggest is how many of the largest entries are kept.
func (c *counter) biggest() int { return cmp.Or(c.o.Top, maxBiggest) }

// big keeps the largest entries, the largest first.
func (c *counter) big(r *Record, q *Request, w writing) {
	b, most := c.out.Biggest, c.biggest()
	if len(b) == most && b[most-1].Bytes >= r.Size {
		return
	}
	at, _ := slices.BinarySearchFunc(b, r.Size, func(x BigEntry, size int64) int {
		if x.Bytes >= size {
			return -1
		}
		return 1
	})
	b = slices.Insert(b, at, BigEntry{r.Position, EntryID{r.Entry.Index, r.Entry.Term}, r.Size, q.Type, w.n, bytes.Clone(w.key)})
	c.out.Biggest = b[:min(len(b), most)]
}

func (a *Amount) add(size int64) {
	a.Count++
	a.Bytes += size
}

// groups are counts by name, of so many names.
type groups[V any] struct {
	of    map[string]*V
	names []string // as they came
}

func (g *groups[V]) get(name string) *V {
	if g.of == nil {
		g.of = map[string]*V{}
	}
	if v := g.of[name]; v != nil {
		return v
	}
	if len(g.of) >= maxGroups {
		name = others
		if v := g.of[name]; v != nil {
			return v
		}
	}
	v, name := new(V), strings.Clone(name)
	g.of[name], g.names = v, append(g.names, name)
	return v
}

// heavy counts things of which there may be any number, and keeps those with the
// most bytes, of the same bytes those that came first: when there are too many, all
// but a quarter are dropped. What one of them can have had before it was dropped is
// in missed.
type heavy[K cmp.Ordered, V any] struct {
	at     map[K]int32
	all    []counted[K, V] // as they came
	text   int             // bytes of the keys
	missed Amount
}

type counted[K, V any] struct {
	k  K
	of V
	Amount
	came int32
}

// get returns what is counted of k, or nil. It is valid until the next put.
func (h *heavy[K, V]) get(k K) *counted[K, V] {
	if i, ok := h.at[k]; ok {
		return &h.all[i]
	}
	return nil
}

// put adds one that is not there, whose key has so many bytes of text.
func (h *heavy[K, V]) put(k K, v V, text int) *counted[K, V] {
	if len(h.all) >= maxCounted || h.text+text > maxKeyText && len(h.all) > 1 {
		h.drop()
	}
	if h.at == nil {
		h.at = map[K]int32{}
	}
	n := len(h.all)
	h.at[k] = int32(n) //nolint:gosec // below maxCounted
	h.all = append(h.all, counted[K, V]{k: k, of: v})
	h.text += text
	return &h.all[n]
}

func (h *heavy[K, V]) drop() {
	for i := range h.all {
		h.all[i].came = int32(i) //nolint:gosec // below maxCounted
	}
	slices.SortFunc(h.all, func(a, b counted[K, V]) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.came, b.came))
	})
	kept := len(h.all) / 4
	var most Amount
	for _, c := range h.all[kept:] {
		most = Amount{Count: max(most.Count, c.Count), Bytes: max(most.Bytes, c.Bytes)}
	}
	h.missed.Count += most.Count
	h.missed.Bytes += most.Bytes
	clear(h.all[kept:]) // what was dropped is to be freed
	h.all = h.all[:kept]
	clear(h.at) // all at once, which is faster than most of them one by one
	h.text = 0
	for i, c := range h.all {
		h.at[c.k] = int32(i) //nolint:gosec // below maxCounted
		if s, ok := any(c.k).(string); ok {
			h.text += len(s)
		}
	}
}
