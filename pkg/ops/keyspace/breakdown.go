package keyspace

import (
	"encoding/json"
	"math"
	"time"

	"kvd/pkg/ops/dbfile"
)

// By says how keys are put into groups.
type By string

// The groupings.
const (
	ByTree      By = "tree"      // by the segments of their names, one below the other
	ByPrefix    By = "prefix"    // by their first segments, or the resource of Kubernetes
	ByResource  By = "resource"  // of Kubernetes
	ByNamespace By = "namespace" // of Kubernetes
	ByLease     By = "lease"     // each record by the lease that it was put with
	ByKind      By = "kind"      // each record by the kind of object that its value says it is
)

// Groups that hold what has no name of the kind that was asked for.
const (
	GroupOther        Name = "(others)"         // there were more groups than are kept apart
	GroupNoNamespace  Name = "(no namespace)"   // cluster-scoped objects
	GroupNoObject     Name = "(not Kubernetes)" // keys and values that are no objects
	GroupNoLease      Name = "(no lease)"
	GroupDeletedSince Name = "(deleted)" // deletions of which the record before is not kept
)

// Breakdown says what is stored, by groups of keys.
type Breakdown struct {
	At       time.Time `json:"at"`
	Source   string    `json:"source"`        // the file, or the member
	Live     bool      `json:"from_a_member"` // of which it is not known what history takes
	Revision int64     `json:"revision"`      // the latest, at which keys are live or not
	Oldest   int64     `json:"oldest_revision"`
	By       By        `json:"by"`
	Depth    int       `json:"depth,omitempty"` // of a tree and of prefixes
	Prefix   Name      `json:"-"`               // only keys with this prefix were counted
	Exact    bool      `json:"exact"`           // bytes were counted; else they are estimated from a sample
	Capped   bool      `json:"groups_capped"`   // there were more groups than are kept apart
	Total    Amounts   `json:"total"`
	File     *Parts    `json:"file,omitempty"`
	Groups   []Part    `json:"groups"` // by what they take, the largest first
	Since    *Earlier  `json:"since,omitempty"`
}

// Part is a group of keys.
type Part struct {
	Name Name `json:"-"`
	Amounts
	Share   float64  `json:"share_ratio"` // of all bytes: live, history, and tombstones
	Largest *KeySize `json:"largest_key,omitempty"`
	// MostRevised is there where a key has more than one record.
	MostRevised *KeyCount `json:"most_revised_key,omitempty"`
	Growth      *Growth   `json:"growth,omitempty"`
	Groups      []Part    `json:"groups,omitempty"` // those below it in a tree, likewise sorted
}

// Amounts are sums over records: what each takes in the file without its part of
// the page, as Item.Size.
type Amounts struct {
	Keys      int64 `json:"keys"`
	Live      int64 `json:"live_bytes"`                 // of the newest revision of each key that was not deleted
	LiveError int64 `json:"live_error_bytes,omitempty"` // the half-width of its 95 % interval, where it is an estimate
	// Revisions are the older ones that are kept. From a member they are those
	// that must be kept at least, and what they take is not known.
	Revisions  int64  `json:"history_revisions"`
	History    *int64 `json:"history_bytes,omitempty"`
	Tombstones *int64 `json:"tombstones,omitempty"` // records of deletions
	Deleted    *int64 `json:"tombstone_bytes,omitempty"`
}

// bytes is all that is known to be taken.
func (a Amounts) bytes() int64 {
	n := a.Live
	for _, more := range []*int64{a.History, a.Deleted} {
		if more != nil {
			n += *more
		}
	}
	return n
}

// Add adds what another group has: its amounts, its share and its growth.
func (p *Part) Add(o Part) {
	p.Keys, p.Live, p.Revisions, p.Share = p.Keys+o.Keys, p.Live+o.Live, p.Revisions+o.Revisions, p.Share+o.Share
	p.LiveError = int64(math.Hypot(float64(p.LiveError), float64(o.LiveError)))
	for to, from := range map[**int64]*int64{&p.History: o.History, &p.Tombstones: o.Tombstones, &p.Deleted: o.Deleted} {
		*to = plus(*to, from)
	}
	if o.Growth == nil {
		return
	}
	if p.Growth == nil {
		p.Growth = &Growth{}
	}
	p.Growth.Keys += o.Growth.Keys
	p.Growth.Live += o.Growth.Live
	p.Growth.Revisions += o.Growth.Revisions
	p.Growth.History = plus(p.Growth.History, o.Growth.History)
}

// plus adds numbers that may not be known.
func plus(a, b *int64) *int64 {
	switch {
	case b == nil:
		return a
	case a == nil:
		return new(*b)
	}
	return new(*a + *b)
}

// KeySize is a key and what its live record takes.
type KeySize struct {
	Key   Name  `json:"-"`
	Bytes int64 `json:"bytes"`
}

// KeyCount is a key and how many records of it are kept, deletions included.
type KeyCount struct {
	Key       Name  `json:"-"`
	Revisions int64 `json:"revisions"`
}

// Parts are what the bytes of a file are used for. Each is counted on its own, and
// together they are the size of the file: if they were not, there would be an
// error in place of them.
type Parts struct {
	Size         int64               `json:"size_bytes"`
	Live         int64               `json:"live_bytes"`
	History      int64               `json:"history_bytes"`
	Deleted      int64               `json:"tombstone_bytes"`
	OtherBuckets int64               `json:"other_bucket_bytes"`
	Branches     int64               `json:"branch_page_bytes"`
	Leaves       int64               `json:"leaf_overhead_bytes"` // headers of pages and records, and room at the ends of pages
	Free         int64               `json:"free_page_bytes"`
	Meta         int64               `json:"meta_page_bytes"`
	Tail         int64               `json:"behind_last_page_bytes"` // room that a server made ahead, or the hash of a snapshot
	Buckets      []dbfile.BucketSize `json:"other_buckets"`
	// Pending is the revision of a compaction that was asked for and not carried
	// out to its end, 0 for none: the first start removes what it is to remove.
	Pending int64 `json:"pending_compact_revision,omitempty"`
}

// Sum returns what the parts add up to.
func (p Parts) Sum() int64 {
	return p.Live + p.History + p.Deleted + p.OtherBuckets + p.Branches + p.Leaves + p.Free + p.Meta + p.Tail
}

// named writes a name beside the other fields of a struct: as text under one key,
// or, where it is not UTF-8, in base64 under another.
func named(key string, n Name, rest any) ([]byte, error) {
	b, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	text, raw := n.field()
	var head []byte
	if text != nil {
		head, err = json.Marshal(map[string]string{key: *text})
	} else {
		head, err = json.Marshal(map[string][]byte{key + "_base64": raw})
	}
	if err != nil {
		return nil, err
	}
	return append(append(head[:len(head)-1], ','), b[1:]...), nil
}

// MarshalJSON adds the name: "group", or "group_base64" if it is not UTF-8.
func (p Part) MarshalJSON() ([]byte, error) {
	type plain Part
	return named("group", p.Name, plain(p))
}

// MarshalJSON adds the key: "key", or "key_base64".
func (k KeySize) MarshalJSON() ([]byte, error) {
	type plain KeySize
	return named("key", k.Key, plain(k))
}

// MarshalJSON adds the key: "key", or "key_base64".
func (k KeyCount) MarshalJSON() ([]byte, error) {
	type plain KeyCount
	return named("key", k.Key, plain(k))
}

// MarshalJSON adds the prefix that was looked at, if there was one.
func (b Breakdown) MarshalJSON() ([]byte, error) {
	type plain Breakdown
	if b.Prefix == "" {
		return json.Marshal(plain(b))
	}
	return named("prefix", b.Prefix, plain(b))
}
